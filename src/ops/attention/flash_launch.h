// SPDX-License-Identifier: Apache-2.0
// What the files of flash attention share on the host.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "cuda/engine.h"
#include "ops/attention/attention.h"

namespace gradmill::flash {

// Kernels without matrix units, fp32 arithmetic throughout: for fp32, and for GPUs whose matrix units do not know the
// type or have too little shared memory for the tiles.
template <class T>
void simt_forward(ExecContext& ctx, const AttentionArgs& args);
// `delta` (H, N): sum of out * dout.
template <class T>
void simt_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& delta);

// delta (H, N) = sum of out * dout over a head.
template <class T>
void sum_outputs(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& delta);

// Short sequences: a block has all keys of a head, and the backward is one kernel. False, and nothing is done, where
// they do not fit.
bool is_short(const ExecContext& ctx, const AttentionArgs& args);
template <class T>
bool short_forward(ExecContext& ctx, const AttentionArgs& args);
template <class T>
bool short_backward(ExecContext& ctx, const AttentionGradArgs& args);
// Whether it would be done, and read all of a head before it writes.
bool short_backward_can_overwrite(ExecContext& ctx, const AttentionGradArgs& args);
// The same by Hopper's own matrix instructions, for `items` key heads of sequences; rows are vectors.
template <class T>
void short_backward_wgmma(ExecContext& ctx, const AttentionGradArgs& args, int items);

template <class T>
bool has_matrix_units(const ExecContext& ctx, size_t shared_bytes) {
  if (std::is_same_v<T, float>) return false;
  if (ctx.cuda->compute_capability() >= 80) return true;
  return std::is_same_v<T, Fp16> && ctx.cuda->compute_capability() == 75 && shared_bytes <= 64 * 1024;
}

// Calls visit.operator()<D>() with the narrowest tile that holds the head.
template <class Visit>
void visit_width(int64_t head_dim, Visit&& visit) {
  if (head_dim <= 32) return visit.template operator()<32>();
  if (head_dim <= 64) return visit.template operator()<64>();
  if (head_dim <= 96) return visit.template operator()<96>();
  if (head_dim <= 128) return visit.template operator()<128>();
  if (head_dim <= 192) return visit.template operator()<192>();
  visit.template operator()<256>();
}

// The common widths have a kernel without dropout's code; the others ask at run time.
template <int D>
inline constexpr bool kHasPlainKernel = D == 64 || D == 128;

// Rows from *end on become 0.
struct Padding {
  void* data;
  int64_t row_stride, column_stride;  // elements
  int64_t rows;
  int cols, element_bytes;
  const int32_t* end;
};
inline Padding padding_of(const TensorView& view, const int32_t* end) {
  return {view.data, view.row_stride, 1, view.rows(), int(view.cols()), int(size_of(view.dtype)), end};
}
void clear_padding(const ExecContext& ctx, std::initializer_list<Padding> tensors);  // three at most

}  // namespace gradmill::flash
