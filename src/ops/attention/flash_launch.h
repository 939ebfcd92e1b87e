// SPDX-License-Identifier: Apache-2.0
// Host functions shared by the files of flash attention.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "cuda/engine.h"
#include "ops/attention/attention.h"

namespace gradmill::flash {

// Kernels without matrix units, with fp32 arithmetic throughout: for fp32, and for GPUs whose matrix units do not
// support the type or that have too little shared memory for the tiles.
template <class T>
void simt_forward(ExecContext& ctx, const AttentionArgs& args);
// `delta` (H, N) receives the sum of out * dout.
template <class T>
void simt_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& delta);

// delta (H, N) = sum of out * dout over a head.
template <class T>
void sum_outputs(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& delta);

// For short sequences: a block has all keys of a head, and the backward is one kernel. Returns false, and does nothing,
// if the problem does not fit.
bool is_short(const ExecContext& ctx, const AttentionArgs& args);
template <class T>
bool short_forward(ExecContext& ctx, const AttentionArgs& args);
template <class T>
bool short_backward(ExecContext& ctx, const AttentionGradArgs& args);
// Whether the short backward would be used and reads all of a head before it writes.
bool short_backward_can_overwrite(ExecContext& ctx, const AttentionGradArgs& args);
// The same with Hopper's own matrix instructions, for `items` key heads of sequences. Rows must be vectors.
template <class T>
void short_backward_wgmma(ExecContext& ctx, const AttentionGradArgs& args, int items);

template <class T>
bool has_matrix_units(const ExecContext& ctx, size_t shared_bytes) {
  if (std::is_same_v<T, float>) return false;
  if (ctx.cuda->compute_capability() >= 80) return true;
  return std::is_same_v<T, Fp16> && ctx.cuda->compute_capability() == 75 && shared_bytes <= 64 * 1024;
}

// Calls visit.operator()<D>() with the narrowest tile that fits the head.
template <class Visit>
void visit_width(int64_t head_dim, Visit&& visit) {
  if (head_dim <= 32) return visit.template operator()<32>();
  if (head_dim <= 64) return visit.template operator()<64>();
  if (head_dim <= 96) return visit.template operator()<96>();
  if (head_dim <= 128) return visit.template operator()<128>();
  if (head_dim <= 192) return visit.template operator()<192>();
  visit.template operator()<256>();
}

// Common widths have a kernel without the code for dropout; the others test for dropout at run time.
template <int D>
inline constexpr bool kHasPlainKernel = D == 64 || D == 128;

// Clears the rows from *end on.
struct Padding {
  void* data;
  int64_t row_stride, column_stride;  // in elements
  int64_t rows;
  int cols, element_bytes;
  const int32_t* end;
};
inline Padding padding_of(const TensorView& view, const int32_t* end) {
  return {view.data, view.row_stride, 1, view.rows(), int(view.cols()), int(size_of(view.dtype)), end};
}
void clear_padding(const ExecContext& ctx, std::initializer_list<Padding> tensors);  // at most three

}  // namespace gradmill::flash
