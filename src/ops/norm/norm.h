// SPDX-License-Identifier: Apache-2.0
// RMSNorm and LayerNorm with a fused residual add before them.
// sum = x + delta;   y = (sum - mean) * rstd * (weight + weight_offset) + bias      (RMSNorm: mean 0, no bias)
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"
#include "ops/matmul/product.h"
#include "ops/partial_sums.h"

namespace gradmill {

enum class NormKind : uint8_t { rms, layer };

struct NormArgs {
  NormKind kind = NormKind::rms;
  TensorView x;       // (N, C)
  TensorView delta;   // (N, C), or undefined: nothing is added
  TensorView weight;  // (C)
  TensorView bias;    // (C), or undefined
  TensorView sum;     // (N, C) out; may be x; undefined if there is no delta
  TensorView mean;    // (N) fp32 out; undefined for RMSNorm
  TensorView rstd;    // (N) fp32 out
  Operand y;          // (N, C) out
  float eps = 1e-6f;
  float weight_offset = 0;
  bool dropout = false;  // sum = x + dropout(delta), with the bits of the dropout op; delta may be overwritten
  uint32_t dropout_site = 0;
  // If defined, this GEMM still has to compute delta. A fused kernel does not write delta to memory.
  Product product;
};
void norm_forward(ExecContext& ctx, const NormArgs& args);

// Recomputes y from x (the saved sum), mean and rstd, with the bits of the forward. Ignores delta and sum.
void norm_rebuild(ExecContext& ctx, const NormArgs& args);

struct NormGradArgs {
  NormKind kind = NormKind::rms;
  TensorView sum;         // (N, C) as saved by the forward
  TensorView mean, rstd;  // (N)
  TensorView weight;      // (C)
  TensorView dy;          // (N, C)
  TensorView dresidual;   // (N, C) gradient that bypasses the norm, or undefined
  TensorView dx;          // (N, C) out: dresidual + norm'(dy); may be dy, dresidual or sum
  TensorView dweight;     // (C) fp32, or undefined (frozen)
  TensorView dbias;       // (C) fp32, or undefined
  float weight_beta = 0;  // dweight = new + beta * old
  float bias_beta = 0;
  float weight_offset = 0;
  Operand y;           // (N, C) out: recomputes the forward's output with the same bits; or undefined
  TensorView bias;     // (C) as in the forward; needed only for y
  TensorView dropped;  // (N, C) out: the dropout op applied to dx; may be sum; or undefined
  uint32_t dropout_site = 0;
  // (C) fp32, or undefined: the column sums of `dropped` (or of dx without dropout) as stored. This is the gradient of
  // a bias that was added to delta.
  TensorView dbranch_bias;
  float branch_beta = 0;
  // May be null. On a GPU, the sums over chunks of rows are then not computed but added to this list, for the caller to
  // compute later; their partials are in the saved arena.
  std::vector<PartialSum>* later = nullptr;
};
void norm_backward(ExecContext& ctx, const NormGradArgs& args);

// `partials` (planes, chunks, C) fp32 receives the part of dweight, dbias and, on CUDA, dbranch_bias of each chunk of
// rows. There are as many planes as the last requested gradient needs.
template <Device D, class T>
void norm_forward(ExecContext& ctx, const NormArgs& args);
template <Device D, class T>
void norm_rebuild(ExecContext& ctx, const NormArgs& args);
template <Device D, class T>
void norm_backward(ExecContext& ctx, const NormGradArgs& args, const TensorView& partials);

// CUDA only: the norm fused with the GEMM that computes delta, on Hopper. For models 384 or 256 wide, a block has whole
// rows of the product, which then need not go through memory. Deterministic.
// Whether args.product can be fused.
bool hopper_supports(const ExecContext& ctx, const NormArgs& args);
template <class T>
void hopper_matmul_norm(ExecContext& ctx, const NormArgs& args);

}  // namespace gradmill
