// SPDX-License-Identifier: Apache-2.0
// Engine: one GPU as one session uses it: its stream and its libraries with their plans.
#pragma once

#include <memory>

#include "core/exec_context.h"
#include "cuda/gpu_stream.h"

namespace gradmill::cuda {

class Gemm;
class Sdpa;

class Engine : public GpuStream {
 public:
  explicit Engine(const EngineOptions& options);
  ~Engine();

  // GEMM through cuBLASLt.
  Gemm& gemm() { return *gemm_; }
  // Attention through cuDNN. It reports by itself if the library is missing.
  Sdpa& sdpa() { return *sdpa_; }

  // Device memory that the libraries hold outside the slab.
  size_t library_bytes() const;

 private:
  std::unique_ptr<Gemm> gemm_;
  std::unique_ptr<Sdpa> sdpa_;
};

inline cudaStream_t stream_of(const ExecContext& ctx) { return ctx.cuda->stream(); }

// A poison function for arenas in device memory.
void poison_device(std::byte* begin, size_t bytes);

// Waits after every op, so that an error is attributed to the op that caused it.
class SynchroniseEachOp : public OpObserver {
 public:
  explicit SynchroniseEachOp(const Engine& engine) : engine_(engine) {}
  void before(std::string_view) override {}
  void after(std::string_view) override { engine_.synchronise(); }

 private:
  const Engine& engine_;
};

}  // namespace gradmill::cuda
