// SPDX-License-Identifier: Apache-2.0
// The softmax of flash attention, one tile at a time.
#pragma once

#include "cuda/mma.cuh"
#include "cuda/reduce.cuh"

namespace gradmill::flash {

// Converts the scores of 16 rows, in mma's layout, to weights relative to the largest score so far, and adds this
// lane's part of their sum to `total`. `shrink` (for rows g and g + 8) rescales earlier sums: this function applies it
// to `total`, and the caller to its own.
template <int kNs>
__device__ inline void softmax_strip(float scale2, float (&scores)[kNs][4], float (&largest)[2], float (&total)[2],
                                     float (&shrink)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = largest[half];
#pragma unroll
    for (int n = 0; n < kNs; ++n) top = fmaxf(top, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    top = cuda::warp_reduce<4>(top, cuda::Max{});
    // Without this, a query that has seen no key yet would subtract infinities.
    const float base = top == -INFINITY ? 0 : top * scale2;
    shrink[half] = cuda::exp2_fast(fmaf(largest[half], scale2, -base));
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 2 * kNs; ++i) {
      float& score = scores[i / 2][2 * half + i % 2];
      score = cuda::exp2_fast(fmaf(score, scale2, -base));
      sum += score;
    }
    largest[half] = top;
    total[half] = fmaf(total[half], shrink[half], sum);
  }
}

}  // namespace gradmill::flash
