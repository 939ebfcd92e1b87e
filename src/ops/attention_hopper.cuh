// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention on Hopper are made of: the tiles of 128 rows and heads of 64 that a block owns one
// after the other, the ring of those it walks over, which one thread fills and two warpgroups empty, and their
// products.
#pragma once

#include "cuda/mma.cuh"
#include "cuda/tile_copy.cuh"
#include "cuda/wgmma.cuh"
#include "ops/attention.h"

namespace gradmill {
namespace hopper {

inline constexpr int kHeadDim = 64, kTile = 128, kHalf = kTile / 2, kWarpgroup = 128;
inline constexpr int kConsumers = 2, kThreads = (kConsumers + 1) * kWarpgroup;  // one warpgroup starts copies
inline constexpr uint32_t kTileBytes = kTile * cuda::kTileRowBytes, kHalfTileBytes = kTileBytes / 2;
inline constexpr uint32_t kStatsBytes = 2 * kTile * sizeof(float);
// Sixteen columns or rows further, in units of 16 bytes.
inline constexpr uint64_t kColumnStep = 32 / 16, kRowStep = 2048 / 16;
inline constexpr int kConsumerRegisters = 240, kProducerRegisters = 24;

// Tiles of what is read, halves of them of what is written.
struct Maps {
  CUtensorMap q, k, v, dout, dq, dk, dv, out;
};

struct Params {
  // Of each sequence, head and tile of queries: kTile times the log2-sum-exp2, then kTile times the sum of out * dout.
  const float* stats;
  int seqs, tiles;   // sequences; tiles of a sequence
  int heads, group;  // query heads; query heads of one key head
  float scale;
  bool causal;

  __device__ const float* stats_of(int seq, int head, int tile) const {
    return stats + ((int64_t(seq) * heads + head) * tiles + tile) * 2 * kTile;
  }
};

inline Params params_of(const AttentionArgs& args) {
  return {.seqs = int(args.seq.max_seqs),
          .tiles = int(args.seq.max_len / kTile),
          .heads = int(args.heads),
          .group = int(args.heads / args.kv_heads),
          .scale = args.scale,
          .causal = args.mask.right == 0};
}

// A tile of keys or queries that a block owns for a while, and the steps that it walks.
struct Item {
  int seq, head, tile;  // of keys: head is a key head
  int steps;

  __device__ int row(const Params& p) const { return (seq * p.tiles + tile) * kTile; }
};

// A block's items: those with most steps under a causal mask come first. Blocks take one each, and then one each in
// reverse order, so that all get about as many steps.
template <bool kKeys>
struct Items {
  const Params& p;
  int heads, lines;  // a line: one head of a sequence

  __device__ explicit Items(const Params& params)
      : p(params), heads(kKeys ? p.heads / p.group : p.heads), lines(p.seqs * heads) {}
  // Of 0 steps if there is none.
  __device__ Item operator[](int round) const {
    const int block = int(blockIdx.x), blocks = int(gridDim.x);
    const int index = round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
    if (index >= lines * p.tiles) return {};
    const int line = index % lines, late = index / lines;
    const int tile = kKeys ? late : p.tiles - 1 - late, seen = p.causal ? p.tiles - late : p.tiles;
    return {line / heads, line % heads, tile, kKeys ? seen * p.group : seen};
  }
};

// What consumers are told of an item, in shared memory.
enum class Told : uint8_t { steps, row, head, units };  // steps: 0 if there is no item; units: of the forward

inline constexpr int kStages = 4;

// Shared memory: two tiles that the block owns, and again for the next item; kStages times two tiles that it walks
// over; stats of the queries in them, owned or not; barriers; what is told of the owned items.
template <bool kKeys>
struct Layout {
  static constexpr int kGroups = kConsumers;
  static constexpr uint32_t kPair = 2 * kTileBytes, kRing = 2 * kPair, kStatsAt = kRing + kStages * kPair;
  static constexpr uint32_t kBarriersAt = kStatsAt + (kKeys ? kStages : 2) * kStatsBytes;
  static constexpr uint32_t kItemsAt = kBarriersAt + (2 * kStages + 4) * 8, kItemBytes = 16;
  static constexpr uint32_t kBytes = kItemsAt + 2 * kItemBytes + 1024;  // the start is aligned by hand

  uint32_t base;
  __device__ explicit Layout(const void* shared) : base((cuda::shared_address(shared) + 1023) & ~1023u) {}
  __device__ uint32_t own(int buffer, int i) const {
    return base + uint32_t(buffer) * kPair + uint32_t(i) * kTileBytes;
  }
  __device__ uint32_t tile(int stage, int i) const { return own(2 + stage, i); }
  // Of a stage of queries, or of own queries.
  __device__ uint32_t stats(int i) const { return base + kStatsAt + uint32_t(i) * kStatsBytes; }
  __device__ uint32_t full(int stage) const { return base + kBarriersAt + uint32_t(stage) * 8; }
  __device__ uint32_t empty(int stage) const { return full(kStages + stage); }
  __device__ uint32_t own_full(int buffer) const { return full(2 * kStages + buffer); }
  __device__ uint32_t own_empty(int buffer) const { return full(2 * kStages + 2 + buffer); }
  __device__ uint32_t item(int buffer) const { return base + kItemsAt + uint32_t(buffer) * kItemBytes; }

  __device__ void init_barriers() const {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        cuda::barrier_init(full(stage), 1);
        cuda::barrier_init(empty(stage), kConsumers * kWarpgroup / (kKeys ? 1 : 32));
      }
      for (int buffer = 0; buffer < 2; ++buffer) {
        cuda::barrier_init(own_full(buffer), 1);
        cuda::barrier_init(own_empty(buffer), kConsumers * kWarpgroup);
      }
      cuda::barrier_init_done();
    }
    __syncthreads();
  }
};

#ifdef GRADMILL_HOPPER_CODE

// The rows of a tile that a product is about: under a causal mask a warpgroup does not see a half of the diagonal.
enum class Part : uint8_t { all, first, second };
__host__ __device__ constexpr int begin_of(Part part) { return part == Part::second ? kHalf : 0; }
__host__ __device__ constexpr int rows_of(Part part) { return part == Part::all ? kTile : kHalf; }
// 64 rows of scores: a column for each row of the part.
template <Part kPart>
using Scores = float[rows_of(kPart) / 8][4];

// d = a · bᵀ over the 64 columns of both tiles, for a part of b's rows.
template <class N, Part kPart>
__device__ inline void multiply_columns(Scores<kPart>& d, uint64_t a, uint64_t b) {
  b += begin_of(kPart) * cuda::kTileRowBytes / 16;
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

// Zeros beside the part: products that skip it would be another copy of a whole step.
template <class N, Part kPart>
__device__ inline void to_left(const Scores<kPart>& d, uint32_t (&left)[kTile / 16][4]) {
  constexpr int kFirst = begin_of(kPart) / 16;
#pragma unroll
  for (int s = 0; s < kTile / 16; ++s) {
    const bool inside = s >= kFirst && s < kFirst + rows_of(kPart) / 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (inside) {
        const float(&from)[4] = d[2 * (s - kFirst) + i / 2];
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
    cuda::barrier_wait(shared_.own_full(buffer()), place_.parity);
    return told(Told::steps) > 0;
  }
  // By shuffle, as own_warpgroup().
  __device__ int told(Told what) const {
    return __shfl_sync(~0u, int(cuda::load_shared_word(shared_.item(buffer()) + uint32_t(what) * 4)), 0);
  }
  // A while after an item has begun: the results of the one before it, if there was one, have left.
  __device__ void release_before() {
    if (begun_) {
      finish();
      cuda::barrier_arrive(shared_.own_empty(1 - buffer()));  // every lane has read for itself
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

// --- the producer's part: one thread starts all copies ---

// Owned tiles, one item after the other.
template <bool kKeys>
class OwnTiles {
 public:
  __device__ OwnTiles(const Layout<kKeys>& shared, const Params& p) : shared_(shared), items_(p) {}

  // Waits for room and takes an item, of 0 steps if there is none. Then all that makes it up must be copied, to full():
  // so many bytes.
  __device__ Item next(uint32_t bytes) {
    const Item item = items_[round_++];
    cuda::barrier_wait(shared_.own_empty(buffer()), place_.parity ^ 1);  // at once in the first round
    const auto tell = [&](Told what, int value) {
      cuda::store_shared(shared_.item(buffer()) + uint32_t(what) * 4, uint32_t(value));
    };
    tell(Told::steps, item.steps);
    tell(Told::row, item.row(items_.p));
    tell(Told::head, item.head);
    if (item.steps == 0) {
      cuda::barrier_arrive(full());
    } else {
      cuda::barrier_expect(full(), bytes);
    }
    return item;
  }
  __device__ uint32_t full() const { return shared_.own_full(place_.stage); }
  __device__ int buffer() const { return place_.stage; }
  __device__ void copy(int i, const CUtensorMap& map, const Item& item) const {
    cuda::copy_tile(shared_.own(buffer(), i), map, item.head * kHeadDim, item.row(items_.p), full());
  }
  __device__ void advance() { place_.advance(); }

 private:
  const Layout<kKeys>& shared_;
  Items<kKeys> items_;
  int round_ = 0;
  cuda::RingPlace<2> place_;
};

// So many tiles of keys and values of a sequence, from the last one, which may be on the diagonal, to the first.
template <class Layout>
__device__ void bring_keys(const Layout& shared, const Maps& maps, const Params& p, int seq, int kv_head, int tiles,
                           cuda::RingPlace<kStages>& place) {
#pragma unroll 1
  for (int tile = tiles - 1; tile >= 0; --tile, place.advance()) {
    const uint32_t full = shared.full(place.stage);
    const int row = (seq * p.tiles + tile) * kTile;
    cuda::barrier_wait(shared.empty(place.stage), place.parity ^ 1);
    cuda::barrier_expect(full, 2 * kTileBytes);
    cuda::copy_tile(shared.tile(place.stage, 0), maps.k, kv_head * kHeadDim, row, full);
    cuda::copy_tile(shared.tile(place.stage, 1), maps.v, kv_head * kHeadDim, row, full);
  }
}

#endif  // GRADMILL_HOPPER_CODE

}  // namespace hopper
}  // namespace gradmill
