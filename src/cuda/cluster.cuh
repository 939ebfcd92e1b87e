// SPDX-License-Identifier: Apache-2.0
// Clusters of blocks (compute capability 9.0 and above). The blocks of a cluster run at the same time and can write
// each other's shared memory. For older GPUs these functions compile to nothing, and no kernel that calls them is
// launched.
#pragma once

#include <cstdint>

namespace gradmill::cuda {

// The cluster's barrier in two halves. Writes that threads of the cluster make before they arrive are visible after the
// wait.
__device__ inline void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
// Signals only that the block has started, as store_to_block requires.
__device__ inline void cluster_arrive_started() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ inline void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The rank of this block in its cluster.
__device__ inline int cluster_rank() {
  uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return int(rank);
}

// *at = value in the shared memory of block `rank` of the cluster, which must be running.
__device__ inline void store_to_block(float2* at, int rank, float2 value) {
#if __CUDA_ARCH__ >= 900
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(at))), "r"(rank));
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(value.x), "f"(value.y) : "memory");
#endif
}

}  // namespace gradmill::cuda
