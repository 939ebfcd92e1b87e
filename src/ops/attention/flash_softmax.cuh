// SPDX-License-Identifier: Apache-2.0
// The softmax of flash attention, tile by tile.
#pragma once

#include "cuda/mma.cuh"
#include "cuda/reduce.cuh"

namespace gradmill::flash {

// Scores of 16 rows, as mma leaves them, become weights relative to the largest score so far, and `total` this lane's
// part of their sum. What was summed up before, in `total` and by the caller, shrinks by `shrink`: rows g and g + 8.
template <int kNs>
__device__ inline void softmax_strip(float scale2, float (&scores)[kNs][4], float (&largest)[2], float (&total)[2],
                                     float (&shrink)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = largest[half];
#pragma unroll
    for (int n = 0; n < kNs; ++n) top = fmaxf(top, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    top = cuda::warp_reduce<4>(top, cuda::Max{});
    // A query that has seen no key yet would subtract infinities.
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
