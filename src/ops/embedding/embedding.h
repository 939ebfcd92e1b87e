// SPDX-License-Identifier: Apache-2.0
// Table lookup, and its gradient without atomics: rows that use the same entry are summed in row order.
#pragma once

#include <span>

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill {

struct EmbeddingArgs {
  TensorView indices;           // (N) int32, in [0, rows of table)
  TensorView table;             // (V, C)
  TensorView position_indices;  // (N) int32, or undefined
  TensorView position_table;    // (P, C), or undefined
  TensorView type_indices;      // (N) int32, or undefined: all 0
  TensorView type_table;        // (Y, C), or undefined
  TensorView y;                 // (N, C) out: scale * table[index] + position_table[position] + type_table[type]
  float scale = 1;
  bool dropout = false;  // applies the dropout op to y
  uint32_t dropout_site = 0;
};
void embedding_forward(ExecContext& ctx, const EmbeddingArgs& args);

// For one table. The position table's gradient is the same, with positions as indices.
struct EmbeddingGradArgs {
  TensorView indices;  // (N) int32
  TensorView dy;       // (N, C)
  TensorView dtable;   // (V, C) fp32: sum of scale * dy + beta * dtable. With beta 0 unused entries become 0.
  float scale = 1;
  float beta = 0;
};
void embedding_backward(ExecContext& ctx, const EmbeddingGradArgs& args);

// Several tables that were looked up for the same rows, so that all have the same dy. A GPU sums tables with few
// entries together.
inline constexpr int kMaxEmbeddingTables = 3;
void embedding_backward(ExecContext& ctx, std::span<const EmbeddingGradArgs> tables);

template <Device D, class T>
void embedding_forward(ExecContext& ctx, const EmbeddingArgs& args);

// How a GPU divides the rows of the gradient: they are sorted by tile and digit, then summed by chunk.
inline constexpr int kEmbeddingTile = 2048, kEmbeddingDigits = 256, kEmbeddingChunk = 32;
// Whether one digit distinguishes all entries: then a tile is sorted and summed in one kernel.
inline bool has_few_entries(const TensorView& dtable) { return dtable.rows() <= kEmbeddingDigits; }

struct EmbeddingGradScratch {
  TensorView order;    // (N) int32 receives rows grouped by index, in row order. GPU: (4, N), two pairs (indices, rows)
  TensorView offsets;  // (V + 1) int32, the start of each group. GPU: (tiles, digits), the count of each digit
  TensorView partials;  // GPU: (chunks, C) fp32, the sum of a chunk's first rows if they continue the previous chunk
};
// A GPU that sums tables with few entries needs partials only: (tiles, V, C) fp32, the sums of each tile.
template <Device D, class T>
void embedding_backward(ExecContext& ctx, std::span<const EmbeddingGradArgs> tables,
                        std::span<const EmbeddingGradScratch> scratch);

}  // namespace gradmill
