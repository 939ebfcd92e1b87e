// SPDX-License-Identifier: Apache-2.0
// GEMM through cuBLASLt. Each problem is planned once; its descriptors and algorithm are kept.
#pragma once

#include <functional>
#include <memory>

#include "core/batch_steps.h"
#include "core/tensor_view.h"

namespace gradmill::cuda {

class GpuStream;

// An operation on the result before it is stored. gelu: c receives the tanh GELU of the result, and `aux` the result
// itself. gelu_gradient: the result is multiplied by the slope of the GELU at `aux`.
enum class GemmEpilogue : uint8_t { none, gelu, gelu_gradient };

// c = alpha · op(a) · op(b) + beta · c (+ bias in every row), row-major, accumulated in fp32 and rounded once. Shapes
// are as in MatmulArgs of ops/matmul/matmul.h.
struct GemmCall {
  TensorView a, b, c;  // a and b have the same dtype; c has it too, or is fp32
  bool transpose_a = false, transpose_b = false;
  float alpha = 1;
  float beta = 0;                              // 0: c is not read
  TensorView bias;                             // (n) in c's dtype, or undefined
  bool tf32 = false;                           // for fp32 operands, where the GPU has it
  bool deterministic = false;                  // the same bits in every run: no choice may depend on timing
  BatchSteps batch;                            // not together with bias or epilogue
  GemmEpilogue epilogue = GemmEpilogue::none;  // others than none need a 16-bit c and beta 0
  TensorView aux;            // (m, n) in c's dtype; the row stride is a multiple of 16 bytes; must not overlap c
  bool sums_follow = false;  // another kernel adds up c's columns afterwards; prefers() takes this into account
};

class Gemm {
 public:
  explicit Gemm(GpuStream& gpu);
  ~Gemm();

  // Enqueues the GEMM on the engine's stream. The first call of a problem plans it; if the engine tunes, this may wait
  // for the GPU and allocate memory temporarily. Later calls do neither and can be captured into a graph.
  void run(const GemmCall& call);

  // Whether a call with an epilogue, followed by `after`, should run instead of `apart`. Both enqueue other work and
  // give the same results. True only if the library supports the call and timing shows that it is clearly faster. If
  // the engine tunes, the first question about a problem runs both many times. Without tuning, or while a graph is
  // captured, the answer is no.
  bool prefers(
      const GemmCall& call, const std::function<void()>& apart, const std::function<void()>& after = [] {});

  // Scratch memory for all GEMMs on this stream, in device memory outside every arena.
  size_t workspace_bytes() const;
  // Writes new timing results to the engine's tuning cache, with a note to the user if that fails. The destructor
  // writes them too.
  void save_tuning();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradmill::cuda
