// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over a warp or a block, in an order that does not change from run to run.
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

// Every lane gets the result. kLanes: a power of two; neighbouring groups of so many lanes reduce on their own.
template <int kLanes = kWarpSize, class Op, class V>
__device__ V warp_reduce(V value, Op op) {
  for (int offset = kLanes / 2; offset > 0; offset /= 2) value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// Every thread gets the result. `shared` holds one V per warp and may be used again after the call.
// The block is one-dimensional, of whole warps; `neutral` is what op does not notice.
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
