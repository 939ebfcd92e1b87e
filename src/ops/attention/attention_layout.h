// SPDX-License-Identifier: Apache-2.0
// Conversions of a SeqLayout for cuDNN's kernels, and work that these leave to us.
#pragma once

#include <initializer_list>

#include "core/exec_context.h"
#include "core/seq_layout.h"

namespace gradmill {

// Tables in device memory with one entry per sequence.
struct RaggedTables {
  static constexpr int kMost = 9;
  struct Offsets {
    int64_t* values = nullptr;  // (max_seqs + 1): the first row of each sequence times `stride`
    int64_t stride = 0;
  };
  int32_t* lens = nullptr;  // (max_seqs)
  Offsets offsets[kMost];
  int count = 0;  // number of `offsets`
};
void fill_ragged_tables(ExecContext& ctx, const SeqLayout& seq, const RaggedTables& tables);

// Clears the rows from cu_q[max_seqs] on, in at most three tensors with the same number of rows. Queries must be the
// keys.
void clear_padding(ExecContext& ctx, const SeqLayout& seq, std::initializer_list<TensorView> tensors);

}  // namespace gradmill
