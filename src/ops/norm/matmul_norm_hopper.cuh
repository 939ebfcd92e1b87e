// SPDX-License-Identifier: Apache-2.0
// Building blocks of GEMMs followed by a norm on Hopper: the ring of operands, which one thread fills and two
// warpgroups consume, and how their tile is then stored in the same memory as whole rows.
#pragma once

#include "cuda/cluster.cuh"
#include "cuda/mma.cuh"
#include "cuda/packed.cuh"
#include "cuda/tile_copy.cuh"
#include "cuda/wgmma.cuh"

namespace gradmill::hopper_norm {

using cuda::Packed;

inline constexpr int kTileRows = 128, kBlock = 64;  // rows of a tile; depth of one stage
inline constexpr int kWarpgroup = 128, kConsumers = 2, kGroupRows = kTileRows / kConsumers;
inline constexpr int kThreads = (kConsumers + 1) * kWarpgroup;  // one warpgroup starts copies
inline constexpr int kWarps = kConsumers * kWarpgroup / 32, kWarpRows = kTileRows / kWarps;
// Blocks in a cluster; each loads a part of the right operand for all. Clusters of four could not use all of an H200's
// multiprocessors.
inline constexpr int kCluster = 2;
inline constexpr int kLanes = 8, kRowsAtOnce = 32 / kLanes;  // of a warp: lanes per row, each with eight columns of
                                                             // each panel

// Shared memory: stages of operands (128 rows of the left one, all of the right one) and barriers. After the products,
// the memory of the stages is reused for a tile of the norm's x and for the product itself, in panels of 64 columns, in
// the order in which stages become free.
template <int kColumns>
struct Layout {
  static constexpr uint32_t kPanelBytes = kTileRows * cuda::kTileRowBytes;
  static constexpr uint32_t kRightBytes = kColumns * cuda::kTileRowBytes, kStageBytes = kPanelBytes + kRightBytes;
  static constexpr int kPanels = kColumns / 64, kStagePanels = int(kStageBytes / kPanelBytes);
  static constexpr int kStages = int(192 * 1024 / kStageBytes);
  static constexpr uint32_t kRingBytes = kStages * kStageBytes;
  static constexpr size_t kBytes = 1024 + kRingBytes + 128;
  static_assert(kStageBytes % kPanelBytes == 0 && kStages * kStagePanels >= 2 * kPanels);

  uint32_t base;

  __device__ explicit Layout(const void* shared) : base((cuda::shared_address(shared) + 1023) & ~1023u) {}
  __device__ uint32_t stage(int count) const { return base + uint32_t(count % kStages) * kStageBytes; }
  __device__ uint32_t full(int count) const { return base + kRingBytes + uint32_t(count % kStages) * 8; }
  __device__ uint32_t empty(int count) const { return full(count % kStages) + kStages * 8; }
  __device__ uint32_t x_here() const { return base + kRingBytes + 2 * kStages * 8; }
  __device__ uint32_t tile_done() const { return x_here() + 8; }
  // Called by one thread.
  __device__ void init_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      cuda::barrier_init(full(i), 1);
      cuda::barrier_init(empty(i), kCluster * kWarps);
    }
    cuda::barrier_init(x_here(), 1);
    cuda::barrier_init(tile_done(), kCluster * kWarps);
    cuda::barrier_init_done();
  }
  // `end`: the number of blocks that the ring has had. The first kPanels panels belong to x.
  __device__ uint32_t panel(int end, int i) const {
    return stage(end + i / kStagePanels) + uint32_t(i % kStagePanels) * kPanelBytes;
  }
};

// The tiles of a block. All blocks of a cluster have the same number, so the last tile may have no rows.
struct Tiles {
  int first, step, end;
  __device__ explicit Tiles(int rows) : first(int(blockIdx.x)), step(int(gridDim.x)) {
    const int tiles = (rows + kTileRows - 1) / kTileRows;
    end = (tiles + kCluster - 1) / kCluster * kCluster;
  }
};

struct Maps {
  CUtensorMap left, right, x;
};

// Run by one thread. Both operands have rows of `depth`. Returns when the other blocks of the cluster will no longer
// arrive at this block's barriers, so that the block stays alive until then.
template <int kColumns>
__device__ void bring(const Layout<kColumns>& shared, const Maps& maps, const Tiles& tiles, int blocks, int rank) {
  using Shape = Layout<kColumns>;
  constexpr uint16_t kAll = (1 << kCluster) - 1;
  constexpr int kPart = kColumns / kCluster;
  const auto wait_for_room = [&](int count) {
    if (count >= Shape::kStages) cuda::barrier_wait(shared.empty(count), uint32_t(count / Shape::kStages - 1) % 2);
  };
  int count = 0, done = 0;
  for (int tile = tiles.first; tile < tiles.end; tile += tiles.step, ++done) {
    if (done > 0) cuda::barrier_wait(shared.tile_done(), uint32_t(done - 1) % 2);
    for (int block = 0; block < blocks; ++block, ++count) {
      wait_for_room(count);
      const uint32_t to = shared.stage(count), right = to + Shape::kPanelBytes, full = shared.full(count);
      cuda::barrier_expect(full, Shape::kStageBytes);
      cuda::copy_tile(to, maps.left, block * kBlock, tile * kTileRows, full);
      cuda::copy_tile_to(kAll, right + uint32_t(rank * kPart * cuda::kTileRowBytes), maps.right, block * kBlock,
                         rank * kPart, full);
    }
    cuda::barrier_expect(shared.x_here(), Shape::kPanels * Shape::kPanelBytes);
    for (int i = 0; i < Shape::kPanels; ++i) {
      if (i % Shape::kStagePanels == 0) wait_for_room(count + i / Shape::kStagePanels);
      cuda::copy_tile(shared.panel(count, i), maps.x, i * 64, tile * kTileRows, shared.x_here());
    }
  }
  for (int i = 0; i < Shape::kStages; ++i) wait_for_room(count + i);
  cuda::barrier_wait(shared.tile_done(), uint32_t(done - 1) % 2);
}

// A warpgroup's 64 rows of a tile: columns 0 .. kColumns / 2 - 1, then the others.
template <int kColumns>
using Accumulator = float[2][kColumns / 16][4];

// c += the rows of the left operand times the right one, for `blocks` blocks from `count` on.
template <class N, int kColumns>
__device__ void multiply(const Layout<kColumns>& shared, int warpgroup, int count, int blocks,
                         Accumulator<kColumns>& c) {
  constexpr uint32_t kHalf = kColumns / 2 * cuda::kTileRowBytes;
  constexpr uint64_t kStep = 32 / 16;  // 16 columns
  cuda::hold_in_place(c[0]);
  cuda::hold_in_place(c[1]);
#pragma unroll 1
  for (int block = 0; block < blocks; ++block, ++count) {
    cuda::barrier_wait(shared.full(count), uint32_t(count / Layout<kColumns>::kStages) % 2);
    const uint32_t stage = shared.stage(count), right = stage + Layout<kColumns>::kPanelBytes;
    const uint64_t a = cuda::matrix_at(stage + uint32_t(warpgroup * kGroupRows * cuda::kTileRowBytes));
    const uint64_t b[2] = {cuda::matrix_at(right), cuda::matrix_at(right + kHalf)};
    cuda::begin_products();
#pragma unroll
    for (int k = 0; k < kBlock / 16; ++k) {
      cuda::multiply<N, false>(c[0], a + k * kStep, b[0] + k * kStep, true);
      cuda::multiply<N, false>(c[1], a + k * kStep, b[1] + k * kStep, true);
    }
    cuda::end_products();
    if (block == 0) continue;
    cuda::wait_for_products<1>();
    cuda::barrier_arrive_everywhere<kCluster>(shared.empty(count - 1));
  }
  cuda::wait_for_products<0>();
  cuda::barrier_arrive_everywhere<kCluster>(shared.empty(count - 1));
  cuda::hold_in_place(c[0]);
  cuda::hold_in_place(c[1]);
}

// A barrier for the consumers of one block.
__device__ inline void sync_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(kConsumers * kWarpgroup) : "memory"); }

// The rows of a tile, stored in the panels.
template <class N, int kColumns>
class Panels {
 public:
  // `end` as in panel(). `first`: index of the first panel.
  __device__ Panels(const Layout<kColumns>& shared, int end, int first) : shared_(shared), end_(end), first_(first) {}
  // `row` is an index within the tile.
  __device__ Packed<N> load(int row, int pack) const {
    const uint4 bits = cuda::load_shared_16(at(row, pack, int(threadIdx.x) % kLanes));
    return {{bits.x, bits.y, bits.z, bits.w}};
  }
  // Stores a warp's 16 rows of accumulators, rounded.
  __device__ void store(int row, const Accumulator<kColumns>& c) const {
    const int lane = int(threadIdx.x) % 32, own = row + lane / 8 % 2 * 8 + lane % 8;
#pragma unroll
    for (int pair = 0; pair < kColumns / 16; ++pair) {
      constexpr int kTiles = kColumns / 16;  // tiles of eight columns in one half
      const auto& left = c[2 * pair / kTiles][2 * pair % kTiles];
      const auto& right = c[(2 * pair + 1) / kTiles][(2 * pair + 1) % kTiles];
      const uint32_t four[4] = {cuda::pack_pair<N>(left[0], left[1]), cuda::pack_pair<N>(left[2], left[3]),
                                cuda::pack_pair<N>(right[0], right[1]), cuda::pack_pair<N>(right[2], right[3])};
      cuda::store_matrices(at(own, pair / 4, pair % 4 * 2 + lane / 16), four);
    }
    __syncwarp();
  }

 private:
  __device__ uint32_t at(int row, int pack, int chunk) const {
    return shared_.panel(end_, first_ + pack) + uint32_t(row * cuda::kTileRowBytes + (chunk ^ row % 8) * 16);
  }

  const Layout<kColumns>& shared_;
  int end_, first_;
};

}  // namespace gradmill::hopper_norm
