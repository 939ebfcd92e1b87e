// SPDX-License-Identifier: Apache-2.0
// Flash attention, backward: computes the gradients of a tile's scores, in the layouts of mma accumulators.
#pragma once

#include "cuda/mma.cuh"
#include "ops/attention/flash_dropout.cuh"

namespace gradmill::flash {

// Number of rows that one step of a loop loads.
inline constexpr int kStep = 32;

// Recomputes the weight from its score. dp, the gradient of the dropped weight, becomes the gradient of the score
// without the factor `scale`. Returns the dropped weight without the factor `keep_scale`.
__device__ inline float softmax_gradient(bool visible, bool keep, float score2, float lse2, float delta,
                                         float keep_scale, float& dp) {
  const float weight = visible ? cuda::exp2_fast(score2 - lse2) : 0;
  dp = weight * fmaf(keep ? dp : 0, keep_scale, -delta);
  return keep ? weight : 0;
}

template <int kMs, int kNs>
__device__ void scale_all(float (&acc)[kMs][kNs][4], float factor) {
#pragma unroll
  for (int m = 0; m < kMs; ++m) {
#pragma unroll
    for (int n = 0; n < kNs; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[m][n][e] *= factor;
    }
  }
}

// Transposed version: rows are strips of 16 keys from `keys` on, columns are queries from `query` on. `keep` has the
// layout of keep_key_rows. lse and delta are given by their addresses in shared memory.
template <bool kMasked, int kMs, int kNs>
__device__ void gradient_of_key_rows(const Sequence& seq, int query, const int (&keys)[kMs], float scale2,
                                     float keep_scale, uint32_t keep, uint32_t lse_at, uint32_t delta_at,
                                     float (&weights)[kMs][kNs][4], float (&dscores)[kMs][kNs][4]) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kNs; ++n) {
    const uint32_t at = (n * 8 + lane % 4 * 2) * 4;
    const float2 lse = cuda::load_shared_pair(lse_at + at), delta = cuda::load_shared_pair(delta_at + at);
#pragma unroll
    for (int m = 0; m < kMs; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = query + n * 8 + lane % 4 * 2 + e % 2, column = keys[m] + lane / 4 + e / 2 * 8;
        const bool visible = !kMasked || seq.sees(row, column);
        weights[m][n][e] =
            softmax_gradient(visible, has_bit(keep, key_row_bit<kNs>(m, n, e)), weights[m][n][e] * scale2,
                             (e % 2 ? lse.y : lse.x) * kLog2E, e % 2 ? delta.y : delta.x, keep_scale, dscores[m][n][e]);
      }
    }
  }
}

// Rows are queries from `query` on, columns keys from `key` on. lse2 (in units of log 2) and delta belong to this
// lane's rows.
template <bool kMasked, int kMs, int kNs>
__device__ void gradient_of_query_rows(const Sequence& seq, int query, int key, float scale2, float keep_scale,
                                       const uint32_t (&keep)[kMs], const float (&lse2)[kMs][2],
                                       const float (&delta)[kMs][2], const float (&scores)[kMs][kNs][4],
                                       float (&dscores)[kMs][kNs][4]) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < kMs; ++m) {
#pragma unroll
    for (int n = 0; n < kNs; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = query + m * 16 + lane / 4 + e / 2 * 8, column = key + n * 8 + lane % 4 * 2 + e % 2;
        const bool visible = !kMasked || seq.sees(row, column);
        softmax_gradient(visible, has_bit(keep[m], query_row_bit(n, e)), scores[m][n][e] * scale2, lse2[m][e / 2],
                         delta[m][e / 2], keep_scale, dscores[m][n][e]);
      }
    }
  }
}

}  // namespace gradmill::flash
