// SPDX-License-Identifier: Apache-2.0
// Matrix products through cuBLASLt, planned once per problem: descriptors and algorithm are kept.
#pragma once

#include <functional>
#include <memory>

#include "core/batch_steps.h"
#include "core/tensor_view.h"

namespace gradmill::cuda {

class GpuStream;

// What becomes of a product before it is stored. gelu: c is the tanh GELU of it, and `aux` the product itself.
// gelu_gradient: it is multiplied with the slope of the GELU at `aux`.
enum class GemmEpilogue : uint8_t { none, gelu, gelu_gradient };

// c = alpha · op(a) · op(b) + beta · c (+ bias to every row), row-major, accumulated in fp32 and rounded once.
// Shapes as MatmulArgs of ops/matmul/matmul.h.
struct GemmCall {
  TensorView a, b, c;  // a and b share a dtype; c has it too, or is fp32
  bool transpose_a = false, transpose_b = false;
  float alpha = 1;
  float beta = 0;                              // 0: c is not read
  TensorView bias;                             // (n) in c's dtype, or undefined
  bool tf32 = false;                           // for fp32 operands, where the GPU has it
  bool deterministic = false;                  // the same bits in every run: no choice may depend on a clock
  BatchSteps batch;                            // without bias or epilogue
  GemmEpilogue epilogue = GemmEpilogue::none;  // others: 16-bit c, beta 0
  TensorView aux;                              // (m, n) in c's dtype, rows in steps of 16 bytes; not overlapping c
  bool sums_follow = false;  // c's columns are added up by another kernel: part of what prefers() is asked
};

class Gemm {
 public:
  explicit Gemm(GpuStream& gpu);
  ~Gemm();

  // Enqueues the product on the engine's stream. The first call of a problem plans it, and may then wait for the GPU
  // and allocate for a moment when the engine tunes; later calls do neither and can be captured into a graph.
  void run(const GemmCall& call);

  // Whether a call with an epilogue, and `after`, should run instead of `apart`; both enqueue other work, and the
  // results are the same. Only if the library can do it and it was timed to be clearly faster: the first question of a
  // problem runs both many times, when the engine tunes. An engine that does not says no, and so it is while a graph is
  // captured.
  bool prefers(
      const GemmCall& call, const std::function<void()>& apart, const std::function<void()>& after = [] {});

  // Scratch that belongs to the products of this stream; in device memory, beside every arena.
  size_t workspace_bytes() const;
  // Writes what was timed since the last time to the engine's tuning cache, and notes if it cannot. The destructor
  // writes too.
  void save_tuning();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradmill::cuda
