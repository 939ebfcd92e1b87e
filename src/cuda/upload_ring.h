// SPDX-License-Identifier: Apache-2.0
// Copies from the host that are ordered with the ops but not waited for. They use a ring of page-locked slots.
#pragma once

#include <span>
#include <vector>

#include "cuda/handles.h"

namespace gradmill::cuda {

class UploadRing {
 public:
  // For uploads of at most `bytes`, of which `slots` may be in flight. Staged uploads cross the bus on a separate
  // stream, in parallel with the ops; for small ones this is not worth the extra copy.
  UploadRing(size_t bytes, size_t slots, bool staged);

  size_t slot_bytes() const { return slot_bytes_; }
  size_t device_bytes() const { return device_.bytes().size(); }
  // Ops enqueued on `stream` before this call see the old values at `to`, later ones the new values. `from` may be
  // reused on return.
  void upload(cudaStream_t stream, void* to, std::span<const std::byte> from);

 private:
  struct Slot {
    Event free;  // recorded when the slot's copy is done
    std::byte* host = nullptr;
    std::byte* device = nullptr;  // null if not staged
  };
  size_t slot_bytes_ = 0, next_ = 0;
  PinnedMemory host_;
  DeviceMemory device_;
  Stream stream_;
  Event arrived_;
  std::vector<Slot> slots_;
};

}  // namespace gradmill::cuda
