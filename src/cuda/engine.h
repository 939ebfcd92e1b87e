// SPDX-License-Identifier: Apache-2.0
// Engine: one GPU as one session uses it: its stream, its libraries with their plans, and what they had to say.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "core/device_spec.h"
#include "core/exec_context.h"
#include "cuda/handles.h"

namespace gradmill::cuda {

class Gemm;
class Sdpa;

struct EngineOptions {
  int index = 0;  // of the GPU among those the driver shows
  // Kernels are chosen as for a GPU of this kind, which must be able to run on the one that is here: so tests reach
  // what others run. 0: as for the one that is here.
  int chosen_for = 0;
  bool autotune = false;     // time GEMM algorithms instead of taking the library's first guess
  std::string tuning_cache;  // file that keeps what was timed; empty: nothing is kept
  std::function<void(const std::string&)> note = [](const std::string&) {};  // a line for people
};

class Engine {
 public:
  explicit Engine(const EngineOptions& options);
  ~Engine();

  const EngineOptions& options() const { return options_; }
  cudaStream_t stream() const { return stream_.get(); }
  int compute_capability() const { return compute_capability_; }
  int num_units() const { return num_units_; }  // multiprocessors
  // Waits for everything on the stream; reports what went wrong there.
  void synchronise() const;

  // Matrix products through cuBLASLt.
  Gemm& gemm() { return *gemm_; }
  // Attention through cuDNN; it says itself when the library is not here.
  Sdpa& sdpa() { return *sdpa_; }

  // Device memory that libraries hold beside the slab.
  size_t library_bytes() const;

  // Tells the user once, however often it happens.
  void note_once(const std::string& text);

 private:
  EngineOptions options_;
  Stream stream_;
  int compute_capability_ = 0, num_units_ = 0;
  std::set<std::string> noted_;
  std::unique_ptr<Gemm> gemm_;
  std::unique_ptr<Sdpa> sdpa_;
};

inline cudaStream_t stream_of(const ExecContext& ctx) { return ctx.cuda->stream(); }

// For arenas in device memory.
void poison_device(std::byte* begin, size_t bytes);

// Waits after every op, so that an error is reported by the op that made it.
class SynchroniseEachOp : public OpObserver {
 public:
  explicit SynchroniseEachOp(const Engine& engine) : engine_(engine) {}
  void before(std::string_view) override {}
  void after(std::string_view) override { engine_.synchronise(); }

 private:
  const Engine& engine_;
};

}  // namespace gradmill::cuda
