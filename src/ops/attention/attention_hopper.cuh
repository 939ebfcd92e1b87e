// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention on Hopper are made of: the tiles of 128 rows and heads of 64 that a block owns one
// after the other, the ring of those it walks over, which one thread fills and the other warpgroups empty, and their
// products.
#pragma once

#include "cuda/mma.cuh"
#include "cuda/tile_copy.cuh"
#include "cuda/wgmma.cuh"
#include "ops/attention/attention.h"

namespace gradmill {
namespace hopper {

inline constexpr int kHeadDim = 64, kTile = 128, kHalf = kTile / 2, kWarpgroup = 128;
inline constexpr uint32_t kTileBytes = kTile * cuda::kTileRowBytes, kHalfTileBytes = kTileBytes / 2;
// Sixteen columns or rows further, in units of 16 bytes.
inline constexpr uint64_t kColumnStep = 32 / 16, kRowStep = 2048 / 16;

// Tiles of what is read, halves of them of what is written.
struct Maps {
  CUtensorMap q, k, v, dout, dq, dk, dv, out;
};

struct Params {
  // Of the backward, twice (heads, rows), what scores and products of v and dout begin with: less each row's
  // log-sum-exp, by the scale; less the sum of its out * dout.
  float* stats;
  int seqs, tiles;   // sequences; tiles of a sequence
  int heads, group;  // query heads; query heads of one key head
  float scale;
  bool causal;

  __device__ int64_t rows() const { return int64_t{seqs} * tiles * kTile; }
  __device__ float* score_start(int head, int row) const { return stats + head * rows() + row; }
  __device__ float* product_start(int head, int row) const { return score_start(heads + head, row); }
};

inline Params params_of(const AttentionArgs& args) {
  return {.seqs = int(args.seq.max_seqs),
          .tiles = int(args.seq.max_len / kTile),
          .heads = int(args.heads),
          .group = int(args.heads / args.kv_heads),
          .scale = args.scale,
          .causal = args.mask.right == 0};
}

// What consumers are told of an item, in shared memory. Steps: 0 if there is no item; units: where blocks own queries.
enum class Told : uint8_t { steps, row, head, units };
inline constexpr uint32_t kItemBytes = 16;

// Barriers and items of a block, from `at` on: a pair of barriers for each stage, and for each of two buffers of tiles
// that the block owns.
template <int kStages, int kGroups>
struct Signals {
  static constexpr uint32_t kBytes = (2 * kStages + 4) * 8 + 2 * kItemBytes;
  uint32_t at;

  __device__ uint32_t full(int stage) const { return at + uint32_t(stage) * 8; }
  __device__ uint32_t empty(int stage) const { return full(kStages + stage); }
  __device__ uint32_t own_full(int buffer) const { return full(2 * kStages + buffer); }
  __device__ uint32_t own_empty(int buffer) const { return full(2 * kStages + 2 + buffer); }
  __device__ uint32_t item(int buffer) const { return full(2 * kStages + 4) + uint32_t(buffer) * kItemBytes; }

  // arrivals: of a consumers' warpgroup when it is done with a stage.
  __device__ void init(int arrivals) const {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        cuda::barrier_init(full(stage), 1);
        cuda::barrier_init(empty(stage), kGroups * arrivals);
      }
      for (int buffer = 0; buffer < 2; ++buffer) {
        cuda::barrier_init(own_full(buffer), 1);
        cuda::barrier_init(own_empty(buffer), kGroups * kWarpgroup);
      }
      cuda::barrier_init_done();
    }
    __syncthreads();
  }
};

// A block's item of a round: those with most steps come first. Blocks take one each, and then one each in reverse
// order, so that all get about as many steps.
__device__ inline int64_t item_of(int round) {
  const int block = int(blockIdx.x), blocks = int(gridDim.x);
  return int64_t{round} * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
}

#ifdef GRADMILL_HOPPER_CODE

// 64 rows of scores, a column for each of so many keys or queries.
template <int kColumns>
using Scores = float[kColumns / 8][4];

// d = a · bᵀ over the 64 columns of both tiles.
template <class N, int kEights>
__device__ inline void multiply_columns(float (&d)[kEights][4], uint64_t a, uint64_t b) {
  cuda::begin_products();
  cuda::multiply_rows<N, false>(d, a, b);
#pragma unroll
  for (int k = 1; k < kHeadDim / 16; ++k) {
    cuda::multiply_rows<N, true>(d, a + k * kColumnStep, b + k * kColumnStep);
  }
  cuda::end_products();
}

// d += a · bᵀ.
template <class N, int kEights>
__device__ inline void add_columns(float (&d)[kEights][4], uint64_t a, uint64_t b) {
  cuda::hold_in_place(d);
  cuda::begin_products();
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) cuda::multiply_rows<N, true>(d, a + k * kColumnStep, b + k * kColumnStep);
  cuda::end_products();
}

// d += a · bᵀ, a as mma's left operand.
template <class N, int kEights>
__device__ inline void add_columns(float (&d)[kEights][4], const uint32_t (&a)[kHeadDim / 16][4], uint64_t b) {
  cuda::hold_in_place(d);
  cuda::begin_products();
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) cuda::multiply_rows<N, true>(d, a[k], b + k * kColumnStep);
  cuda::end_products();
}

// A warpgroup's 64 rows in shared memory as left operands.
__device__ inline void load_left(uint32_t rows, uint32_t (&left)[kHeadDim / 16][4]) {
  const int lane = int(threadIdx.x) % 32, row = int(threadIdx.x) % kWarpgroup / 32 * 16 + lane % 16;
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) {
    cuda::load_matrices(left[k], rows + uint32_t(row * cuda::kTileRowBytes + ((2 * k + lane / 16) ^ row % 8) * 16));
  }
}

// d += left · tile over the rows of the tile.
template <class N, int kSteps>
__device__ inline void multiply_rows(float (&d)[8][4], const uint32_t (&left)[kSteps][4], uint64_t tile) {
  cuda::hold_in_place(d);
  cuda::begin_products();
#pragma unroll
  for (int s = 0; s < kSteps; ++s) cuda::multiply_add_columns<N>(d, left[s], tile + s * kRowStep);
  cuda::end_products();
}

// Zeros where there are no scores: products that skip them would be another copy of a whole step.
template <class N, int kEights, int kSteps>
__device__ inline void to_left(const float (&d)[kEights][4], uint32_t (&left)[kSteps][4]) {
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (2 * s < kEights) {
        const float(&from)[4] = d[2 * s + i / 2];
        left[s][i] = cuda::pack_pair<N>(from[i % 2 * 2], from[i % 2 * 2 + 1]);
      } else {
        asm volatile("mov.u32 %0, 0;" : "=r"(left[s][i])::"memory");  // here, not while products are on their way
      }
    }
  }
}

// scale * d (64 x 64, the warpgroup's) as 16-bit rows in shared memory; then the engine stores them.
template <class N>
__device__ inline void stage_result(const float (&d)[8][4], float scale, uint32_t rows) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp * 16 + lane / 4 + half * 8;
      const uint32_t at = rows + uint32_t(row * cuda::kTileRowBytes + (j ^ row % 8) * 16 + lane % 4 * 4);
      cuda::store_shared(at, cuda::pack_pair<N>(d[j][2 * half] * scale, d[j][2 * half + 1] * scale));
    }
  }
  cuda::show_to_products();
}

// By shuffle, so that the compiler knows it is the same for a warp and keeps what depends on it in uniform registers.
__device__ inline int own_warpgroup() { return __shfl_sync(~0u, int(threadIdx.x) / kWarpgroup, 0); }

// Where a consumer's thread sits, and its first rows of an owned tile and of one that is walked over: more own ones
// follow at + 8, others at + 1 and every + 8.
struct Seat {
  int warpgroup = own_warpgroup(), lane = int(threadIdx.x) % 32;
  int own = warpgroup * kHalf + int(threadIdx.x) % kWarpgroup / 32 * 16 + lane / 4, other = lane % 4 * 2;
};

// The consumers' turns at the matrix units: each waits until the one before has queued its products before it queues
// its own. Left alone, all would multiply at a part of the speed and then all compute weights while the matrix units
// idle.
template <int kGroups>
class Turns {
 public:
  __device__ explicit Turns(int warpgroup) : own_(2 + warpgroup), next_(2 + (warpgroup + 1) % kGroups) {
    if (warpgroup == kGroups - 1) pass_on();
  }
  __device__ void wait() const { asm volatile("bar.sync %0, %1;" ::"r"(own_), "n"(2 * kWarpgroup) : "memory"); }
  __device__ void pass_on() const { asm volatile("bar.arrive %0, %1;" ::"r"(next_), "n"(2 * kWarpgroup) : "memory"); }

 private:
  int own_, next_;  // named barriers
};

// Of one warpgroup.
__device__ inline void sync_warpgroup(int warpgroup) {
  asm volatile("bar.sync %0, %1;" ::"r"(5 + warpgroup), "n"(kWarpgroup) : "memory");
}

// A warpgroup's way from one owned pair of tiles to the next. Results leave from where own rows were: until they have
// left, nothing comes there.
template <class Layout>
class Owned {
 public:
  __device__ Owned(const Layout& shared, int warpgroup) : shared_(shared), warpgroup_(warpgroup) {}

  __device__ int buffer() const { return place_.stage; }
  // This warpgroup's rows.
  __device__ uint32_t rows(int i) const { return shared_.own(buffer(), i) + uint32_t(warpgroup_) * kHalfTileBytes; }
  // Until the tiles are there. False: there is no more.
  __device__ bool wait() const {
    cuda::barrier_wait(shared_.signals.own_full(buffer()), place_.parity);
    return told(Told::steps) > 0;
  }
  // By shuffle, as own_warpgroup().
  __device__ int told(Told what) const {
    return __shfl_sync(~0u, int(cuda::load_shared_word(shared_.signals.item(buffer()) + uint32_t(what) * 4)), 0);
  }
  // A while after an item has begun: the results of the one before it, if there was one, have left.
  __device__ void release_before() {
    if (begun_) {
      finish();
      cuda::barrier_arrive(shared_.signals.own_empty(1 - buffer()));  // every lane has read for itself
    }
    begun_ = true;
  }
  // Around the staging of results; products that read own rows are done.
  __device__ void begin_results() const { sync_warpgroup(warpgroup_); }
  template <class Store>
  __device__ void end_results(Store&& store) {
    sync_warpgroup(warpgroup_);
    if (threadIdx.x % kWarpgroup == 0) {
      store();
      cuda::commit_stores();
    }
    place_.advance();
  }
  // There is nothing to store.
  __device__ void pass_over() { place_.advance(); }
  // Shared memory must outlive the stores that read it.
  __device__ static void finish() {
    if (threadIdx.x % kWarpgroup == 0) cuda::wait_for_store_groups<0>();
  }

 private:
  const Layout& shared_;
  int warpgroup_;
  bool begun_ = false;
  cuda::RingPlace<2> place_;
};

#endif  // GRADMILL_HOPPER_CODE

}  // namespace hopper
}  // namespace gradmill
