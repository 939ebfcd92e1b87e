// SPDX-License-Identifier: Apache-2.0
// GpuStream: the CUDA stream of one GPU as one session uses it, the properties of the GPU, and notes to the user.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "cuda/handles.h"

namespace gradmill::cuda {

struct EngineOptions {
  int index = 0;  // index among the GPUs that the driver shows
  // Compute capability to choose kernels for. The GPU present must be able to run them. Tests use this to cover kernels
  // that other GPUs would choose. 0: that of the GPU present.
  int chosen_for = 0;
  bool autotune = false;     // time GEMM algorithms instead of taking cuBLASLt's first suggestion
  std::string tuning_cache;  // file that stores timing results; empty: they are not stored
  std::function<void(const std::string&)> note = [](const std::string&) {};  // shows one line to the user
};

class GpuStream {
 public:
  explicit GpuStream(const EngineOptions& options);

  const EngineOptions& options() const { return options_; }
  cudaStream_t stream() const { return stream_.get(); }
  int compute_capability() const { return compute_capability_; }
  int num_units() const { return num_units_; }  // multiprocessors
  // Waits for everything on the stream, and reports errors that occurred there.
  void synchronise() const;

  // Shows a note to the user; only once if called repeatedly with the same text.
  void note_once(const std::string& text);

 private:
  EngineOptions options_;
  Stream stream_;
  int compute_capability_ = 0, num_units_ = 0;
  std::set<std::string> noted_;
};

}  // namespace gradmill::cuda
