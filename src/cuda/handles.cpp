// SPDX-License-Identifier: Apache-2.0
#include "cuda/handles.h"

#include "core/error.h"

namespace gradmill::cuda {

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  return Stream(stream);
}

Event make_event(bool timing) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming), "creating an event");
  return Event(event);
}

DeviceMemory::DeviceMemory(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, bytes) != cudaSuccess) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    const auto gib = [](size_t size) { return double(size) / double(1 << 30); };
    throw Error(ExitCode::out_of_memory,
                fmt::format("cannot allocate {:.2f} GiB of GPU memory: {:.2f} of {:.2f} GiB are free", gib(bytes),
                            gib(free), gib(total)),
                "use a smaller training.micro_batch_size or model.context, machine.save_policy=cheap, or stop what "
                "else runs on the GPU ('gradmill plan' shows what the memory is for)");
  }
  memory_.reset(static_cast<std::byte*>(pointer));
}

PinnedMemory::PinnedMemory(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* pointer = nullptr;
  check(cudaMallocHost(&pointer, bytes), "allocating page-locked memory");
  memory_.reset(static_cast<std::byte*>(pointer));
}

}  // namespace gradmill::cuda
