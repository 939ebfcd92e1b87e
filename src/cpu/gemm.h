// SPDX-License-Identifier: Apache-2.0
// GEMM on the CPU: a grid of tiles that depends on the shape alone. Each tile is one single-threaded oneDNN call, so
// the bits do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "cpu/thread_pool.h"

namespace gradmill::cpu {

// One single-threaded GEMM, row-major: c (m, n) = op(a) (m, k) · op(b) (k, n) + beta · c. If beta is 0, c is not read.
struct GemmTile {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* b = nullptr;
  int64_t ldb = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  float alpha = 1;
  float beta = 0;
};
void gemm_tile(const GemmTile& tile);

// The same GEMM on all threads. `bias` (n), if not null, is added to every row.
void gemm(ThreadPool& pool, const GemmTile& product, const float* bias);

}  // namespace gradmill::cpu
