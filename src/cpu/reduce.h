// SPDX-License-Identifier: Apache-2.0
// The second half of a reduction over rows, and the rule that splits row-wise ops into tasks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/thread_pool.h"

namespace gradmill::cpu {

// About 16 thousand elements per task, so that the work outweighs the cost of starting the task.
inline int64_t rows_per_task(int64_t cols) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(cols, 1)); }

// out (size) = the sum of partials (count, size), in order, + beta * out.
inline void add_partials(ThreadPool& pool, const float* partials, int64_t count, int64_t size, float* out, float beta) {
  parallel_for(pool, size, 256, [&](int64_t begin, int64_t end) {
    float sum[256] = {};
    for (int64_t part = 0; part < count; ++part) {
      const float* from = partials + part * size + begin;
      for (int64_t i = 0; i < end - begin; ++i) sum[i] += from[i];
    }
    for (int64_t i = 0; i < end - begin; ++i) out[begin + i] = beta == 0 ? sum[i] : sum[i] + beta * out[begin + i];
  });
}

}  // namespace gradmill::cpu
