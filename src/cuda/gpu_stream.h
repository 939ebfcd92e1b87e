// SPDX-License-Identifier: Apache-2.0
// GpuStream: the stream of one GPU as one session uses it, what the GPU is, and what there is to say of it.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "cuda/handles.h"

namespace gradmill::cuda {

struct EngineOptions {
  int index = 0;  // of the GPU among those the driver shows
  // Kernels are chosen as for a GPU of this kind, which must be able to run on the one that is here: so tests reach
  // what others run. 0: as for the one that is here.
  int chosen_for = 0;
  bool autotune = false;     // time GEMM algorithms instead of taking the library's first guess
  std::string tuning_cache;  // file that keeps what was timed; empty: nothing is kept
  std::function<void(const std::string&)> note = [](const std::string&) {};  // a line for people
};

class GpuStream {
 public:
  explicit GpuStream(const EngineOptions& options);

  const EngineOptions& options() const { return options_; }
  cudaStream_t stream() const { return stream_.get(); }
  int compute_capability() const { return compute_capability_; }
  int num_units() const { return num_units_; }  // multiprocessors
  // Waits for everything on the stream; reports what went wrong there.
  void synchronise() const;

  // Tells the user once, however often it happens.
  void note_once(const std::string& text);

 private:
  EngineOptions options_;
  Stream stream_;
  int compute_capability_ = 0, num_units_ = 0;
  std::set<std::string> noted_;
};

}  // namespace gradmill::cuda
