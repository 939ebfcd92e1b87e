// SPDX-License-Identifier: Apache-2.0
// Copies from the host that overlap with the ops before them: through a ring of page-locked slots and, for large ones,
// a second stream.
#pragma once

#include <array>
#include <span>

#include "cuda/handles.h"

namespace gradmill::cuda {

class UploadRing {
 public:
  UploadRing() = default;
  // For uploads of at most `bytes`.
  explicit UploadRing(size_t bytes);

  size_t slot_bytes() const { return slot_bytes_; }
  // Ops on `stream` before this see the old values at `to`, those after it the new ones. `from` may be reused on
  // return.
  void upload(cudaStream_t stream, void* to, std::span<const std::byte> from);

 private:
  static constexpr size_t kSlots = 32;  // two steps of a dozen micro-batches
  // Below this a copy on the ops' own stream costs less than the detour.
  static constexpr size_t kDirectBytes = 32 * 1024;

  struct Slot {
    Event free;  // recorded when the slot's copy is done
    std::byte* host = nullptr;
    std::byte* device = nullptr;
  };
  size_t slot_bytes_ = 0, next_ = 0;
  PinnedMemory host_;
  DeviceMemory device_;
  Stream stream_;
  Event arrived_;
  std::array<Slot, kSlots> slots_;
};

}  // namespace gradmill::cuda
