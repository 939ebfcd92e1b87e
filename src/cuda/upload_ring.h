// SPDX-License-Identifier: Apache-2.0
// Copies from the host in the order of the ops, without waiting for them: through a ring of page-locked slots.
#pragma once

#include <span>
#include <vector>

#include "cuda/handles.h"

namespace gradmill::cuda {

class UploadRing {
 public:
  // For uploads of at most `bytes`, `slots` of them on their way. Staged ones cross the bus on a stream of their own,
  // beside the ops; small ones are not worth the detour.
  UploadRing(size_t bytes, size_t slots, bool staged);

  size_t slot_bytes() const { return slot_bytes_; }
  size_t device_bytes() const { return device_.bytes().size(); }
  // Ops on `stream` before this see the old values at `to`, those after it the new ones. `from` may be reused on
  // return.
  void upload(cudaStream_t stream, void* to, std::span<const std::byte> from);

 private:
  struct Slot {
    Event free;  // recorded when the slot's copy is done
    std::byte* host = nullptr;
    std::byte* device = nullptr;  // null: not staged
  };
  size_t slot_bytes_ = 0, next_ = 0;
  PinnedMemory host_;
  DeviceMemory device_;
  Stream stream_;
  Event arrived_;
  std::vector<Slot> slots_;
};

}  // namespace gradmill::cuda
