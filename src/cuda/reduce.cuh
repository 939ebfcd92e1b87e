// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over a warp or a block, in an order that is the same in every run.
#pragma once

namespace gradmill::cuda {

inline constexpr int kWarpSize = 32;

struct Sum {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};
struct Max {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a > b ? a : b;
  }
};

// All lanes receive the result. kLanes is a power of two; each group of kLanes neighbouring lanes is reduced
// separately.
template <int kLanes = kWarpSize, class Op, class V>
__device__ V warp_reduce(V value, Op op) {
  for (int offset = kLanes / 2; offset > 0; offset /= 2) value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// All threads receive the result. `shared` holds one V per warp and may be reused after the call. The block must be
// one-dimensional and consist of whole warps. `neutral` is the neutral element of op.
template <class Op, class V>
__device__ V block_reduce(V value, Op op, V neutral, V* shared) {
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize, lane = static_cast<int>(threadIdx.x) % kWarpSize;
  value = warp_reduce(value, op);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = warp_reduce(lane < warps ? shared[lane] : neutral, op);
  __syncthreads();
  return value;
}

}  // namespace gradmill::cuda
