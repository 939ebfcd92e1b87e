// SPDX-License-Identifier: Apache-2.0
#include "cuda/gpu_stream.h"

#include "cuda/check.h"

namespace gradmill::cuda {

GpuStream::GpuStream(const EngineOptions& options) : options_(options) {
  check(cudaSetDevice(options.index), "choosing the GPU");
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, options.index), "reading a property of the GPU");
    return value;
  };
  const int here = 10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor);
  compute_capability_ = options.chosen_for > 0 ? options.chosen_for : here;
  num_units_ = attribute(cudaDevAttrMultiProcessorCount);
  stream_ = make_stream();
}

void GpuStream::synchronise() const { check(cudaStreamSynchronize(stream_.get()), "waiting for the GPU"); }

void GpuStream::note_once(const std::string& text) {
  if (noted_.insert(text).second) options_.note(text);
}

}  // namespace gradmill::cuda
