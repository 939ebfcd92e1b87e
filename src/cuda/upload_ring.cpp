// SPDX-License-Identifier: Apache-2.0
#include "cuda/upload_ring.h"

#include <cassert>
#include <cstring>

#include "core/storage.h"

namespace gradmill::cuda {

UploadRing::UploadRing(size_t bytes, size_t slots, bool staged)
    : slot_bytes_(align_up(bytes)),
      host_(slots * slot_bytes_),
      device_(staged ? slots * slot_bytes_ : 0),
      stream_(make_stream()),
      arrived_(make_event()),
      slots_(slots) {
  for (size_t i = 0; i < slots; ++i) {
    slots_[i].free = make_event();
    slots_[i].host = host_.bytes().data() + i * slot_bytes_;
    if (staged) slots_[i].device = device_.bytes().data() + i * slot_bytes_;
  }
}

void UploadRing::upload(cudaStream_t stream, void* to, std::span<const std::byte> from) {
  assert(from.size() <= slot_bytes_);
  Slot& slot = slots_[next_++ % slots_.size()];
  check(cudaEventSynchronize(slot.free.get()), "waiting for an upload");
  std::memcpy(slot.host, from.data(), from.size());
  if (slot.device == nullptr) {
    check(cudaMemcpyAsync(to, slot.host, from.size(), cudaMemcpyHostToDevice, stream), "uploading");
  } else {
    // The slow copy across the bus runs in parallel with the ops; only the copy within the device is ordered with them.
    check(cudaMemcpyAsync(slot.device, slot.host, from.size(), cudaMemcpyHostToDevice, stream_.get()), "uploading");
    check(cudaEventRecord(arrived_.get(), stream_.get()), "uploading");
    check(cudaStreamWaitEvent(stream, arrived_.get()), "uploading");
    check(cudaMemcpyAsync(to, slot.device, from.size(), cudaMemcpyDeviceToDevice, stream), "uploading");
  }
  check(cudaEventRecord(slot.free.get(), stream), "uploading");
}

}  // namespace gradmill::cuda
