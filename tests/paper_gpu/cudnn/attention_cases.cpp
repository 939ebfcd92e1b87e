// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cudnn/attention_problem.h"

namespace gradmill::paper {

const std::vector<AttentionCase>& attention_cases() {
  static const std::vector<AttentionCase> all = {
      {.name = "causal", .lens = {128, 128}},
      {.name = "causal, grouped heads, odd length", .lens = {87, 87}, .heads = 6, .kv_heads = 2, .head_dim = 32},
      {.name = "bidirectional, one key head", .lens = {70, 70}, .heads = 4, .kv_heads = 1, .right = -1},
      {.name = "sliding window", .lens = {100}, .head_dim = 40, .left = 19},
      {.name = "band", .lens = {65}, .head_dim = 128, .left = 7, .right = 9},
      {.name = "everything after", .lens = {66}, .head_dim = 8, .left = 0, .right = -1},
      {.name = "one sequence of one head", .lens = {5}, .heads = 1, .kv_heads = 1, .head_dim = 16},
      {.name = "deterministic", .lens = {64, 64}, .heads = 4, .deterministic = true},
      {.name = "fp16", .lens = {128}, .dtype = DType::fp16},
      {.name = "wide heads", .lens = {40}, .head_dim = 256},
      {.name = "ragged", .lens = {70, 0, 1, 130, 9, 0}, .ragged = true, .padding = 13},
      {.name = "ragged, grouped heads", .lens = {33, 129, 64}, .heads = 6, .ragged = true, .padding = 2},
      {.name = "ragged, grouped heads, no multiple of 16", .lens = {50, 3}, .heads = 4, .head_dim = 24, .ragged = true},
      {.name = "ragged, bidirectional, fp16", .lens = {90, 20}, .right = -1, .ragged = true, .dtype = DType::fp16},
      {.name = "ragged, window", .lens = {90, 20}, .left = 10, .ragged = true},
      {.name = "ragged, deterministic", .lens = {90, 20}, .heads = 4, .ragged = true, .deterministic = true},
  };
  return all;
}

}  // namespace gradmill::paper
