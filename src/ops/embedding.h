// SPDX-License-Identifier: Apache-2.0
// Table look-up, and its gradient without atomics: rows that use the same entry are summed in row order.
#pragma once

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct EmbeddingArgs {
  TensorView indices;           // (N) int32, in [0, rows of table)
  TensorView table;             // (V, C)
  TensorView position_indices;  // (N) int32, or undefined
  TensorView position_table;    // (P, C), or undefined
  TensorView y;                 // (N, C) out: scale * table[index] + position_table[position]
  float scale = 1;
};
void embedding_forward(ExecContext& ctx, const EmbeddingArgs& args);

// One table at a time; the position table's gradient is the same op with positions as indices.
struct EmbeddingGradArgs {
  TensorView indices;  // (N) int32
  TensorView dy;       // (N, C)
  TensorView dtable;   // (V, C) fp32: sum of scale * dy + beta * dtable. With beta 0 unused entries become 0.
  float scale = 1;
  float beta = 0;
};
void embedding_backward(ExecContext& ctx, const EmbeddingGradArgs& args);

template <Device D, class T>
void embedding_forward(ExecContext& ctx, const EmbeddingArgs& args);
// `order` (N) int32 receives rows grouped by index in row order, `offsets` (V + 1) int32 where each group starts.
template <Device D, class T>
void embedding_backward(ExecContext& ctx, const EmbeddingGradArgs& args, const TensorView& order,
                        const TensorView& offsets);

}  // namespace gradmill
