// SPDX-License-Identifier: Apache-2.0
// What kernels of others want to know about a SeqLayout, and what they leave undone.
#pragma once

#include <initializer_list>

#include "core/exec_context.h"
#include "core/seq_layout.h"

namespace gradmill {

// Tables in device memory, one entry a sequence.
struct RaggedTables {
  static constexpr int kMost = 9;
  struct Offsets {
    int64_t* values = nullptr;  // (max_seqs + 1): first row of each sequence times `stride`
    int64_t stride = 0;
  };
  int32_t* lens = nullptr;  // (max_seqs)
  Offsets offsets[kMost];
  int count = 0;  // of `offsets`
};
void fill_ragged_tables(ExecContext& ctx, const SeqLayout& seq, const RaggedTables& tables);

// Rows from cu_q[max_seqs] on become 0; queries are keys. At most three tensors with as many rows each.
void clear_padding(ExecContext& ctx, const SeqLayout& seq, std::initializer_list<TensorView> tensors);

}  // namespace gradmill
