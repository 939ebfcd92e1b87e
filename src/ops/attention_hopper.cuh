// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention on Hopper are made of: tiles of 128 rows and heads of 64 in shared memory, the ring of
// stages that one thread fills and two warpgroups empty, and their products.
#pragma once

#include "cuda/mma.cuh"
#include "cuda/tile_copy.cuh"
#include "cuda/wgmma.cuh"

namespace gradmill {
namespace hopper {

inline constexpr int kHeadDim = 64, kTile = 128, kWarpgroup = 128;
inline constexpr int kConsumers = 2, kThreads = (kConsumers + 1) * kWarpgroup;  // one warpgroup starts copies
inline constexpr uint32_t kTileBytes = kTile * cuda::kTileRowBytes, kHalfTileBytes = kTileBytes / 2;
inline constexpr uint32_t kStatsBytes = 2 * kTile * sizeof(float);
// Sixteen columns or rows further, in units of 16 bytes.
inline constexpr uint64_t kColumnStep = 32 / 16, kRowStep = 2048 / 16;
inline constexpr int kConsumerRegisters = 240, kProducerRegisters = 24;

struct Maps {
  CUtensorMap q, k, v, dout, dq, dk, dv;
};

struct Params {
  // Of each sequence, head and tile of queries: kTile times the log2-sum-exp2, then kTile times the sum of out * dout.
  const float* stats;
  int tiles;         // of a sequence
  int heads, group;  // query heads; query heads of one key head
  float scale;
  bool causal;
};

// Shared memory: two tiles that the block owns, then kStages times two tiles (and queries' stats) that it walks over.
template <int kStages, bool kStats>
struct Layout {
  static constexpr uint32_t kOwn = 2 * kTileBytes, kStage = 2 * kTileBytes;
  static constexpr uint32_t kStatsAt = kOwn + kStages * kStage;
  static constexpr uint32_t kBarriersAt = kStatsAt + (kStats ? kStages * kStatsBytes : 0);
  static constexpr uint32_t kBytes = kBarriersAt + (2 * kStages + 1) * 8 + 1024;  // the start is aligned by hand

  uint32_t base;
  __device__ explicit Layout(const void* shared) : base((cuda::shared_address(shared) + 1023) & ~1023u) {}
  __device__ uint32_t own(int i) const { return base + uint32_t(i) * kTileBytes; }
  __device__ uint32_t tile(int stage, int i) const {
    return base + kOwn + uint32_t(stage) * kStage + uint32_t(i) * kTileBytes;
  }
  __device__ uint32_t stats(int stage) const { return base + kStatsAt + uint32_t(stage) * kStatsBytes; }
  __device__ uint32_t full(int stage) const { return base + kBarriersAt + uint32_t(stage) * 8; }
  __device__ uint32_t empty(int stage) const { return full(kStages + stage); }
  __device__ uint32_t own_full() const { return full(2 * kStages); }

  __device__ void init_barriers() const {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        cuda::barrier_init(full(stage), 1);
        cuda::barrier_init(empty(stage), kConsumers * kWarpgroup / (kStats ? 1 : 32));
      }
      cuda::barrier_init(own_full(), 1);
      cuda::barrier_init_done();
    }
    __syncthreads();
  }
};

// A place in the ring of stages.
template <int kStages>
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

using KeyLayout = Layout<3, true>;
using QueryLayout = Layout<4, false>;
inline constexpr int kKeyStages = 3, kQueryStages = 4;

#ifdef GRADMILL_HOPPER_CODE

// d = a · bᵀ over the 64 columns of both tiles.
template <class N>
__device__ inline void multiply_columns(float (&d)[16][4], uint64_t a, uint64_t b) {
  cuda::begin_products();
  cuda::multiply_rows<N, false>(d, a, b);
#pragma unroll
  for (int k = 1; k < kHeadDim / 16; ++k) {
    cuda::multiply_rows<N, true>(d, a + k * kColumnStep, b + k * kColumnStep);
  }
  cuda::end_products();
}

// d += left · tile over the 128 rows of the tile.
template <class N>
__device__ inline void multiply_rows(float (&d)[8][4], const uint32_t (&left)[kTile / 16][4], uint64_t tile) {
  cuda::hold_in_place(d);
  cuda::begin_products();
#pragma unroll
  for (int s = 0; s < kTile / 16; ++s) cuda::multiply_add_columns<N>(d, left[s], tile + s * kRowStep);
  cuda::end_products();
}

template <class N>
__device__ inline void to_left(const float (&d)[16][4], uint32_t (&left)[kTile / 16][4]) {
#pragma unroll
  for (int s = 0; s < kTile / 16; ++s) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      left[s][i] = cuda::pack_pair<N>(d[2 * s + i / 2][i % 2 * 2], d[2 * s + i / 2][i % 2 * 2 + 1]);
    }
  }
}

// scale * d (64 x 64, the warpgroup's) as 16-bit rows of a tile in shared memory; then the engine stores the tile.
template <class N>
__device__ inline void stage_result(const float (&d)[8][4], float scale, uint32_t tile, int first_row) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + warp * 16 + lane / 4 + half * 8;
      const uint32_t at = tile + uint32_t(row * cuda::kTileRowBytes + (j ^ row % 8) * 16 + lane % 4 * 4);
      cuda::store_shared(at, cuda::pack_pair<N>(d[j][2 * half] * scale, d[j][2 * half + 1] * scale));
    }
  }
  cuda::show_to_products();
}

// By shuffle, so that the compiler knows it is the same for a warp and keeps what depends on it in uniform registers.
__device__ inline int own_warpgroup() { return __shfl_sync(~0u, int(threadIdx.x) / kWarpgroup, 0); }

// The consumers' turns at the matrix units: each waits for the other's products to be queued before it queues its own.
// Left alone, both would multiply at half speed and then both compute weights while the matrix units idle.
class Turns {
 public:
  __device__ explicit Turns(int warpgroup) : own_(2 + warpgroup), other_(3 - warpgroup) {
    if (warpgroup == 1) pass_on();
  }
  __device__ void wait() const {
    asm volatile("bar.sync %0, %1;" ::"r"(own_), "n"(kConsumers * kWarpgroup) : "memory");
  }
  __device__ void pass_on() const {
    asm volatile("bar.arrive %0, %1;" ::"r"(other_), "n"(kConsumers * kWarpgroup) : "memory");
  }

 private:
  int own_, other_;  // named barriers
};

// Among the consumers only.
__device__ inline void sync_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(kConsumers * kWarpgroup) : "memory"); }

#endif  // GRADMILL_HOPPER_CODE

}  // namespace hopper
}  // namespace gradmill
