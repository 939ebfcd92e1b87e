// SPDX-License-Identifier: Apache-2.0
// Building blocks of GEMMs with a GELU on Hopper: the share of the weight that a block keeps; the ring of activations,
// which one thread fills and three warpgroups consume in turn; and the processing of their tiles.
#pragma once

#include <algorithm>

#include "cuda/mma.cuh"
#include "cuda/tile_copy.cuh"
#include "cuda/wgmma.cuh"
#include "ops/activation_math.cuh"

namespace gradmill::hopper_mlp {

inline constexpr int kTileRows = 64, kBlock = 64;  // rows of a tile; depth of one stage
inline constexpr int kMostDepth = 384, kWarpgroup = 128;
inline constexpr int kConsumers = 3, kThreads = (kConsumers + 1) * kWarpgroup;  // one warpgroup starts copies
inline constexpr uint32_t kStageBytes = kTileRows * cuda::kTileRowBytes;
inline constexpr int kStripRows = kTileRows / 4;  // rows of a tile per warp
inline constexpr uint32_t kStripBytes = kStripRows * cuda::kTileRowBytes;
using Gelu = GeluTanh<false>;

// Tiles of activations, blocks of the weight, and strips of the other tensors.
struct Maps {
  CUtensorMap activations, weight;  // (N, K), (F, K); in the backward the weight is (K, F)
  CUtensorMap x, y, dx;             // (N, F)
};

template <class N>
struct Work {
  const N* bias;  // (F), or null
  int rows, depth, shares;
};

// Shared memory: the stages of the ring of activations, kBuffers strips per multiplying warp, barriers, and the share
// of the weight. The ring gets the space that remains.
template <int kShareColumns, int kBuffers>
struct Layout {
  static constexpr int kShare = kShareColumns, kWarps = kConsumers * kWarpgroup / 32;
  static constexpr uint32_t kAll = 227 * 1024, kAlignment = 1024, kBarrierBytes = 1024;
  static constexpr uint32_t kBlockBytes = kShare * cuda::kTileRowBytes, kStripsBytes = kWarps * kBuffers * kStripBytes;
  static constexpr uint32_t kRoom = kAll - kAlignment - kBarrierBytes - kMostDepth / kBlock * kBlockBytes;
  static constexpr int kStages = std::min((kRoom - kStripsBytes) / kStageBytes, 8u);
  static constexpr uint32_t kStrips = kStages * kStageBytes, kBarriers = kStrips + kStripsBytes;
  static constexpr uint32_t kWeight = kBarriers + kBarrierBytes;
  static_assert(kStages >= 3 && 8 * (2 * kStages + kMostDepth / kBlock + kWarps * kBuffers) <= kBarrierBytes);
  uint32_t base;

  __device__ explicit Layout(const void* shared)
      : base((cuda::shared_address(shared) + kAlignment - 1) & ~(kAlignment - 1)) {}
  static size_t bytes(int blocks) { return kAlignment + kWeight + size_t(blocks) * kBlockBytes; }
  __device__ uint32_t stage(int i) const { return base + uint32_t(i) * kStageBytes; }
  __device__ uint32_t strip(int warp) const { return base + kStrips + uint32_t(warp * kBuffers) * kStripBytes; }
  __device__ uint32_t weight(int block) const { return base + kWeight + uint32_t(block) * kBlockBytes; }
  __device__ uint32_t full(int i) const { return base + kBarriers + uint32_t(i) * 8; }
  __device__ uint32_t empty(int i) const { return full(kStages + i); }
  __device__ uint32_t weight_here(int block) const { return full(2 * kStages + block); }
  __device__ uint32_t strip_here(int warp) const { return full(2 * kStages + kMostDepth / kBlock + warp * kBuffers); }

  // Called by one thread.
  __device__ void init_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      cuda::barrier_init(full(i), 1);
      cuda::barrier_init(empty(i), kWarpgroup / 32);
    }
    for (int i = 0; i < kMostDepth / kBlock; ++i) cuda::barrier_init(weight_here(i), 1);
    for (int i = 0; i < kWarps * kBuffers; ++i) cuda::barrier_init(strip_here(0) + uint32_t(i) * 8, 1);
    cuda::barrier_init_done();
  }
};

// The tiles of a block: the first has the block's own index, and each next one is as many tiles later as there are
// workers.
struct Tiles {
  int first, step, end;
  __device__ explicit Tiles(int rows, int shares)
      : first(int(blockIdx.x) / shares), step(int(gridDim.x) / shares), end((rows + kTileRows - 1) / kTileRows) {}
};

inline constexpr uint32_t kPanelBytes = kBlock * cuda::kTileRowBytes;

// Loads the share, 64 of the depth at a time: in the forward, 64 columns of its rows. With kRows (the backward), 64
// rows of 64 columns, then of the next 64.
template <bool kRows, class Shared>
__device__ inline void bring_weight(const Shared& shared, const CUtensorMap& map, int first, int blocks) {
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    const uint32_t to = shared.weight(block), here = shared.weight_here(block);
    cuda::barrier_expect(here, Shared::kBlockBytes);
    if constexpr (kRows) {
      for (int panel = 0; panel < Shared::kShare / kBlock; ++panel) {
        cuda::copy_tile(to + uint32_t(panel) * kPanelBytes, map, first + panel * kBlock, block * kBlock, here);
      }
    } else {
      cuda::copy_tile(to, map, block * kBlock, first, here);
    }
  }
}

template <class Shared>
__device__ inline void bring_activations(const Shared& shared, const CUtensorMap& map, const Tiles& tiles, int blocks) {
  cuda::RingPlace<Shared::kStages> place;
  for (int tile = tiles.first; tile < tiles.end; tile += tiles.step) {
#pragma unroll 1
    for (int block = 0; block < blocks; ++block, place.advance()) {
      const uint32_t full = shared.full(place.stage);
      cuda::barrier_wait(shared.empty(place.stage), place.parity ^ 1);  // does not wait in the first round
      cuda::barrier_expect(full, kStageBytes);
      cuda::copy_tile(shared.stage(place.stage), map, block * kBlock, tile * kTileRows, full);
    }
  }
}

// Makes warpgroups multiply in the order of their tiles. A warpgroup that ran ahead could not distinguish a stage's
// phase from the one two phases later.
class Order {
 public:
  __device__ explicit Order(int warpgroup) : own_(1 + warpgroup), next_(1 + (warpgroup + 1) % kConsumers) {
    if (warpgroup == kConsumers - 1) pass_on();
  }
  __device__ void wait() const { asm volatile("bar.sync %0, %1;" ::"r"(own_), "n"(2 * kWarpgroup) : "memory"); }
  __device__ void pass_on() const { asm volatile("bar.arrive %0, %1;" ::"r"(next_), "n"(2 * kWarpgroup) : "memory"); }

 private:
  int own_, next_;  // named barriers
};

// c = the tile times the share; the tile's blocks in the ring start at `count`. `first`: this warpgroup has not waited
// for the share yet.
template <class N, bool kRows, class Shared>
__device__ inline void multiply_tile(const Shared& shared, const Order& order, int count, int blocks, bool first,
                                     float (&c)[Shared::kShare / 8][4]) {
  constexpr uint64_t kStepA = 32 / 16;
  constexpr uint64_t kStepB = (kRows ? 16 * cuda::kTileRowBytes : 32) / 16;
  auto place = cuda::RingPlace<Shared::kStages>::at(count);
  int before = 0;  // the stage of the previous block
  const auto release = [&] {
    if (threadIdx.x % 32 == 0) cuda::barrier_arrive(shared.empty(before));
  };
  order.wait();
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    if (first) cuda::barrier_wait(shared.weight_here(block), 0);
    cuda::barrier_wait(shared.full(place.stage), place.parity);
    const uint64_t a = cuda::matrix_at(shared.stage(place.stage));
    const uint64_t b = cuda::matrix_at(shared.weight(block), kPanelBytes);
    cuda::begin_products();
#pragma unroll
    for (int k = 0; k < kBlock / 16; ++k) {
      cuda::multiply<N, kRows>(c, a + k * kStepA, b + k * kStepB, k > 0 || block > 0);
    }
    cuda::end_products();
    if (block > 0) {
      cuda::wait_for_products<1>();
      release();
    }
    before = place.stage;
    place.advance();
  }
  order.pass_on();
  cuda::wait_for_products<0>();
  release();
  cuda::hold_in_place(c);
}

// --- storing results ---

// 16 rows and 64 columns of a warp's results, as four groups of 16 columns. Each group is in the layout of
// store_matrices and load_matrices: eight columns of the upper eight rows and of the lower eight rows, then the next
// eight columns.
using Strip = uint32_t[4][4];

// Calls of(i, n, e) for words i of a strip from `first` to `end`: word i holds c[n][e] and c[n][e + 1] for the columns
// from 64 * panel on.
template <class Of>
__device__ inline void each_pair(int panel, int first, int end, Of&& of) {
#pragma unroll
  for (int i = first; i < end; ++i) of(i, panel * 8 + i / 4 * 2 + i % 4 / 2, i % 2 * 2);
}

// The buffers for a warp's strips in shared memory, and the copies between them and global memory. Rows after the last
// are loaded as zeros and not stored.
class StripBuffers {
 public:
  __device__ StripBuffers(uint32_t strips, uint32_t barriers) : strips_(strips), barriers_(barriers) {
    const uint32_t lane = threadIdx.x % 32, row = lane % 16;
    lane_ = row * cuda::kTileRowBytes + (lane / 16 ^ row % 8) * 16;
  }

  // Starts loading a strip. The old contents of the buffer must have been stored or read. The fence orders these reads
  // before the copy; without it the copy engine might overtake them.
  __device__ void bring(int buffer, const CUtensorMap& map, int column, int row) const {
    cuda::show_to_products();
    __syncwarp();
    if (!cuda::elect_one()) return;
    cuda::barrier_expect(here(buffer), kStripBytes);
    cuda::copy_tile(at(buffer), map, column, row, here(buffer));
  }
  __device__ void read(int buffer, uint32_t parity, Strip& strip) const {
    cuda::barrier_wait(here(buffer), parity);
#pragma unroll
    for (int i = 0; i < 4; ++i) cuda::load_matrices(strip[i], at(buffer) + (lane_ ^ uint32_t(i * 32)));
  }
  // Starts storing a strip, after waiting for all pending stores except the last kLeft. kStreaming: the data is not
  // read again soon.
  template <int kLeft, bool kStreaming = false>
  __device__ void store(int buffer, const Strip& strip, const CUtensorMap& map, int column, int row) const {
    wait<kLeft>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i) cuda::store_matrices(at(buffer) + (lane_ ^ uint32_t(i * 32)), strip[i]);
    cuda::show_to_products();
    __syncwarp();
    if (!cuda::elect_one()) return;
    if constexpr (kStreaming) {
      cuda::store_tile_streaming(map, column, row, at(buffer));
    } else {
      cuda::store_tile(map, column, row, at(buffer));
    }
    cuda::commit_stores();
  }
  // Waits for all pending stores except the last kLeft.
  template <int kLeft>
  __device__ void wait() const {
    if (cuda::elect_one()) cuda::wait_for_store_groups<kLeft>();
  }

 private:
  __device__ uint32_t at(int buffer) const { return strips_ + uint32_t(buffer) * kStripBytes; }
  __device__ uint32_t here(int buffer) const { return barriers_ + uint32_t(buffer) * 8; }

  uint32_t strips_, barriers_, lane_;
};

// Where a warp's strips of a tile begin.
struct Place {
  int row, column;
};

template <class N, int kShare>
struct Forward {
  static constexpr bool kRows = false;
  static constexpr int kBuffers = 1;
  const Work<N>& work;
  const Maps& maps;
  const StripBuffers& buffers;

  __device__ void prepare(const Place&, int) {}
  // Computes a strip of y in halves, which gives the previous store time to finish. The next GEMM reads y; x waits for
  // the backward and should not take y's place in the cache.
  __device__ void finish(const Place& place, int, float (&c)[kShare / 8][4]) {
    if (work.bias) add_bias(place, c);
#pragma unroll
    for (int panel = 0; panel < kShare / kBlock; ++panel) {
      Strip x, y;
      each_pair(panel, 0, 16, [&](int i, int n, int e) { x[i / 4][i % 4] = cuda::pack_pair<N>(c[n][e], c[n][e + 1]); });
      const auto gelu = [&](int i, int, int) {
        const float2 pair = cuda::unpack_pair<N>(x[i / 4][i % 4]);
        y[i / 4][i % 4] = cuda::pack_pair<N>(Gelu::value(pair.x), Gelu::value(pair.y));
      };
      const int column = place.column + panel * kBlock;
      each_pair(panel, 0, 8, gelu);
      buffers.store<kBuffers - 1, true>(0, x, maps.x, column, place.row);
      each_pair(panel, 8, 16, gelu);
      buffers.store<kBuffers - 1>(kBuffers - 1, y, maps.y, column, place.row);
    }
  }
  __device__ void add_bias(const Place& place, float (&c)[kShare / 8][4]) {
    const N* const from = work.bias + place.column + threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < kShare / 8; ++n) {
      const float2 pair = cuda::unpack_pair<N>(*reinterpret_cast<const uint32_t*>(from + n * 8));
      c[n][0] += pair.x, c[n][2] += pair.x;
      c[n][1] += pair.y, c[n][3] += pair.y;
    }
  }
};

// Two strips of x are loaded while the tile is multiplied, and a third as soon as the first is in registers. The
// gradient of strip i is stored from the buffer that held strip i + 1 of x.
template <class N, int kShare, bool kAgain>
struct Gradient {
  static constexpr bool kRows = true;
  static constexpr int kBuffers = 2, kPanels = kShare / kBlock;
  static_assert(kPanels == 2 || kPanels == 3);
  const Work<N>& work;
  const Maps& maps;
  const StripBuffers& buffers;

  __device__ void prepare(const Place& place, int) {
    buffers.wait<0>();
    for (int panel = 0; panel < kBuffers; ++panel) bring(place, panel);
  }
  __device__ void bring(const Place& place, int panel) {
    buffers.bring(panel % kBuffers, maps.x, place.column + panel * kBlock, place.row);
  }
  // The first buffer receives two of three strips in every round.
  __device__ void read(int panel, int round, Strip& x) {
    const int phase = kPanels == 3 && panel % 2 == 0 ? panel / 2 : round;
    buffers.read(panel % kBuffers, uint32_t(phase) % 2, x);
  }
  __device__ void finish(const Place& place, int round, float (&c)[kShare / 8][4]) {
    Strip x, dx, y;
    read(0, round, x);
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      if (panel + kBuffers < kPanels) bring(place, panel + kBuffers);
      each_pair(panel, 0, 16, [&](int i, int n, int e) {
        const float2 pair = cuda::unpack_pair<N>(x[i / 4][i % 4]);
        const Point first = Gelu::point(pair.x), second = Gelu::point(pair.y);
        dx[i / 4][i % 4] = cuda::pack_pair<N>(c[n][e] * first.slope, c[n][e + 1] * second.slope);
        if constexpr (kAgain) y[i / 4][i % 4] = cuda::pack_pair<N>(first.value, second.value);
      });
      if (panel + 1 < kPanels) read(panel + 1, round, x);
      const int column = place.column + panel * kBlock, buffer = (panel + 1) % kBuffers;
      buffers.store<1>(buffer, dx, maps.dx, column, place.row);
      if constexpr (kAgain) buffers.store<0>(buffer, y, maps.y, column, place.row);
    }
  }
};
template <class N, int kShare>
using Backward = Gradient<N, kShare, false>;
template <class N, int kShare>
using BackwardAgain = Gradient<N, kShare, true>;

}  // namespace gradmill::hopper_mlp
