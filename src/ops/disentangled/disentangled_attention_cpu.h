// SPDX-License-Identifier: Apache-2.0
// Definitions shared by the two CPU files of disentangled attention.
#pragma once

#include "ops/attention/attention_cpu.h"
#include "ops/disentangled/disentangled_attention.h"

namespace gradmill::attention {

// Distances of the pairs in a tile: row r of the window is distance (first query - first key) + r - (kAttentionTile -
// 1).
inline constexpr int64_t kWindowRows = 2 * kAttentionTile - 1;

// Accumulators for the gradients of one head's columns of the two tables: fp32 (P, H * D) each.
struct TableSums {
  float *pos_k = nullptr, *pos_q = nullptr;
  int64_t stride = 0;
};

}  // namespace gradmill::attention
