// SPDX-License-Identifier: Apache-2.0
// Building blocks of the attention kernels for Hopper (tiles of 128 rows, heads of 64): the tiles that a block owns one
// after the other; the ring of tiles it loops over, which one thread fills and the other warpgroups consume; and their
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
// Offsets of sixteen columns or rows, in units of 16 bytes.
inline constexpr uint64_t kColumnStep = 32 / 16, kRowStep = 2048 / 16;

// Full tiles of what is read, and half tiles of what is written.
struct Maps {
  CUtensorMap q, k, v, dout, dq, dk, dv, out;
};

struct Params {
  // For the backward: two arrays (heads, rows) with the start values of the accumulators of the scores and of v·dout.
  // These are minus the log-sum-exp of the row divided by the scale, and minus the row's sum of out * dout.
  float* stats;
  int seqs, tiles;   // number of sequences; tiles per sequence
  int heads, group;  // query heads; query heads per key head
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

// Fields of an item, which the producer writes to shared memory for the consumers. steps is 0 if there is no item;
// units is used where blocks own queries.
enum class ItemField : uint8_t { steps, row, head, units };
inline constexpr uint32_t kItemBytes = 16;

// The barriers and items of a block, stored from `at` on: a pair of barriers for each stage, and a pair for each of the
// two buffers of owned tiles.
template <int kStages, int kGroups>
struct Signals {
  static constexpr uint32_t kBytes = (2 * kStages + 4) * 8 + 2 * kItemBytes;
  uint32_t at;

  __device__ uint32_t full(int stage) const { return at + uint32_t(stage) * 8; }
  __device__ uint32_t empty(int stage) const { return full(kStages + stage); }
  __device__ uint32_t own_full(int buffer) const { return full(2 * kStages + buffer); }
  __device__ uint32_t own_empty(int buffer) const { return full(2 * kStages + 2 + buffer); }
  __device__ uint32_t item(int buffer) const { return full(2 * kStages + 4) + uint32_t(buffer) * kItemBytes; }

  // `arrivals`: the number of arrivals with which a warpgroup of consumers releases a stage.
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

// The item of a block in a round. Items with the most steps come first. Blocks take one item each in order, then one
// each in reverse order, so that all get about the same number of steps.
__device__ inline int64_t item_of(int round) {
  const int block = int(blockIdx.x), blocks = int(gridDim.x);
  return int64_t{round} * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
}

#ifdef GRADMILL_HOPPER_CODE

// 64 rows of scores, with one column per key or query.
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

// d += a · bᵀ, with a as mma's left operand.
template <class N, int kEights>
__device__ inline void add_columns(float (&d)[kEights][4], const uint32_t (&a)[kHeadDim / 16][4], uint64_t b) {
  cuda::hold_in_place(d);
  cuda::begin_products();
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) cuda::multiply_rows<N, true>(d, a[k], b + k * kColumnStep);
  cuda::end_products();
}

// Loads a warpgroup's 64 rows from shared memory as left operands.
__device__ inline void load_left(uint32_t rows, uint32_t (&left)[kHeadDim / 16][4]) {
  const int lane = int(threadIdx.x) % 32, row = int(threadIdx.x) % kWarpgroup / 32 * 16 + lane % 16;
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) {
    cuda::load_matrices(left[k], rows + uint32_t(row * cuda::kTileRowBytes + ((2 * k + lane / 16) ^ row % 8) * 16));
  }
}

// d += left · tile, over the rows of the tile.
template <class N, int kSteps>
__device__ inline void multiply_rows(float (&d)[8][4], const uint32_t (&left)[kSteps][4], uint64_t tile) {
  cuda::hold_in_place(d);
  cuda::begin_products();
#pragma unroll
  for (int s = 0; s < kSteps; ++s) cuda::multiply_add_columns<N>(d, left[s], tile + s * kRowStep);
  cuda::end_products();
}

// Zeros where there are no scores. Skipping their products would need another copy of a whole step.
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
        asm volatile("mov.u32 %0, 0;" : "=r"(left[s][i])::"memory");  // here, not while products are in flight
      }
    }
  }
}

// Writes scale * d (64 x 64, of the warpgroup) as 16-bit rows to shared memory, from where the copy engine stores them.
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

// The shuffle tells the compiler that the value is the same for the whole warp, so that it uses uniform registers.
__device__ inline int own_warpgroup() { return __shfl_sync(~0u, int(threadIdx.x) / kWarpgroup, 0); }

// The position of a consumer's thread: its first row in an owned tile and in a tile of the loop. More rows of the owned
// tile follow at + 8, others at + 1 and then every + 8.
struct Seat {
  int warpgroup = own_warpgroup(), lane = int(threadIdx.x) % 32;
  int own = warpgroup * kHalf + int(threadIdx.x) % kWarpgroup / 32 * 16 + lane / 4, other = lane % 4 * 2;
};

// Makes the consumers take turns at the matrix units: each waits until the one before it has queued its products.
// Otherwise all would multiply at a fraction of the speed, and then all compute weights while the matrix units idle.
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

// A barrier for the threads of one warpgroup.
__device__ inline void sync_warpgroup(int warpgroup) {
  asm volatile("bar.sync %0, %1;" ::"r"(5 + warpgroup), "n"(kWarpgroup) : "memory");
}

// Moves a warpgroup from one pair of owned tiles to the next. Results are stored from the memory of the owned rows, so
// that memory is not refilled before the stores have read it.
template <class Layout>
class Owned {
 public:
  __device__ Owned(const Layout& shared, int warpgroup) : shared_(shared), warpgroup_(warpgroup) {}

  __device__ int buffer() const { return place_.stage; }
  // The rows of this warpgroup.
  __device__ uint32_t rows(int i) const { return shared_.own(buffer(), i) + uint32_t(warpgroup_) * kHalfTileBytes; }
  // Waits until the tiles have arrived. False if there are no more.
  __device__ bool wait() const {
    cuda::barrier_wait(shared_.signals.own_full(buffer()), place_.parity);
    return item(ItemField::steps) > 0;
  }
  // Reads a field of the item. By shuffle, like own_warpgroup().
  __device__ int item(ItemField what) const {
    return __shfl_sync(~0u, int(cuda::load_shared_word(shared_.signals.item(buffer()) + uint32_t(what) * 4)), 0);
  }
  // Called a while after an item has begun: waits for the stores of the previous item's results, if any.
  __device__ void release_before() {
    if (begun_) {
      finish();
      cuda::barrier_arrive(shared_.signals.own_empty(1 - buffer()));  // every lane has done its own reads
    }
    begun_ = true;
  }
  // begin_results and end_results enclose the writing of results to shared memory. Products that read the owned rows
  // are done.
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
  // Used when there is nothing to store.
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
