// SPDX-License-Identifier: Apache-2.0
// Flash attention, backward: from a tile's scores to their gradients, in the layouts of mma accumulators.
#pragma once

#include "cuda/mma.cuh"
#include "ops/flash_params.cuh"

namespace gradmill::flash {

// Rows that one step of a walk loads.
inline constexpr int kStep = 32;

// The weight is computed again from its score. dp, the gradient of the dropped weight, becomes that of the score but
// for the factor `scale`. Returns the dropped weight but for the factor `keep_scale`.
__device__ inline float softmax_gradient(bool visible, bool keep, float score2, float lse2, float delta,
                                         float keep_scale, float& dp) {
  const float weight = visible ? cuda::exp2_fast(score2 - lse2) : 0;
  dp = weight * ((keep ? dp * keep_scale : 0) - delta);
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

// Transposed: rows are keys from `key` on, columns queries from `query` on. `vectors` holds their lse, then delta.
template <bool kMasked, int kMs, int kNs>
__device__ void gradient_of_key_rows(const Sequence& seq, int query, int key, float scale2, float keep_scale,
                                     const uint32_t (&keep)[kMs], uint32_t vectors, float (&weights)[kMs][kNs][4],
                                     float (&dscores)[kMs][kNs][4]) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kNs; ++n) {
    const uint32_t at = vectors + (n * 8 + lane % 4 * 2) * 4;
    const float2 lse = cuda::load_shared_pair(at), delta = cuda::load_shared_pair(at + kStep * 4);
#pragma unroll
    for (int m = 0; m < kMs; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = query + n * 8 + lane % 4 * 2 + e % 2, column = key + m * 16 + lane / 4 + e / 2 * 8;
        const bool visible = !kMasked || seq.sees(row, column);
        weights[m][n][e] =
            softmax_gradient(visible, keep[m] >> (4 * n + e) & 1, weights[m][n][e] * scale2,
                             (e % 2 ? lse.y : lse.x) * kLog2E, e % 2 ? delta.y : delta.x, keep_scale, dscores[m][n][e]);
      }
    }
  }
}

// Rows are queries from `query` on, columns keys from `key` on. lse2 (in units of log 2) and delta are of this lane's
// rows.
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
        softmax_gradient(visible, keep[m] >> (4 * n + e) & 1, scores[m][n][e] * scale2, lse2[m][e / 2], delta[m][e / 2],
                         keep_scale, dscores[m][n][e]);
      }
    }
  }
}

}  // namespace gradmill::flash
