// SPDX-License-Identifier: Apache-2.0
// What products with a norm behind them are made of on Hopper: the ring of operands that one thread fills and two
// warpgroups empty, and how their tile then lies in the same memory as whole rows.
#pragma once

#include "cuda/cluster.cuh"
#include "cuda/mma.cuh"
#include "cuda/packed.cuh"
#include "cuda/tile_copy.cuh"
#include "cuda/wgmma.cuh"

namespace gradmill::hopper_norm {

using cuda::Packed;

inline constexpr int kTileRows = 128, kBlock = 64;  // rows of a tile; depth that is brought at a time
inline constexpr int kWarpgroup = 128, kConsumers = 2, kGroupRows = kTileRows / kConsumers;
inline constexpr int kThreads = (kConsumers + 1) * kWarpgroup;  // one warpgroup starts copies
inline constexpr int kWarps = kConsumers * kWarpgroup / 32, kStripRows = kTileRows / kWarps;
inline constexpr int kCluster = 2;  // blocks that bring one half of the right operand each, to both of them

// Shared memory: stages of operands (128 rows of the left one, all of the right one), barriers, sums of warps, gains.
// When all is multiplied, a tile of 128 rows that the norm needs and the product itself take the stages' place, panels
// of 64 columns, in the order in which stages get free.
template <int kColumns>
struct Layout {
  static constexpr uint32_t kPanelBytes = kTileRows * cuda::kTileRowBytes;
  static constexpr uint32_t kRightBytes = kColumns * cuda::kTileRowBytes, kStageBytes = kPanelBytes + kRightBytes;
  static constexpr int kPanels = kColumns / 64, kStagePanels = int(kStageBytes / kPanelBytes);
  static constexpr int kStages = int(192 * 1024 / kStageBytes);
  static constexpr uint32_t kRingBytes = kStages * kStageBytes;
  static constexpr size_t kBytes = 1024 + kRingBytes + 128 + (kWarps + 1) * kColumns * sizeof(float);
  static_assert(kStageBytes % kPanelBytes == 0 && kStages * kStagePanels >= 2 * kPanels);

  uint32_t base;

  __device__ explicit Layout(const void* shared) : base((cuda::shared_address(shared) + 1023) & ~1023u) {}
  __device__ uint32_t stage(int count) const { return base + uint32_t(count % kStages) * kStageBytes; }
  __device__ uint32_t full(int count) const { return base + kRingBytes + uint32_t(count % kStages) * 8; }
  __device__ uint32_t empty(int count) const { return full(count % kStages) + kStages * 8; }
  __device__ uint32_t rows_here() const { return base + kRingBytes + 2 * kStages * 8; }
  __device__ uint32_t tile_done() const { return rows_here() + 8; }
  __device__ uint32_t sums() const { return base + kRingBytes + 128; }
  __device__ uint32_t gain() const { return sums() + kWarps * kColumns * sizeof(float); }
  // `end`: blocks that the ring has seen. The norm's own tile has the first kPanels.
  __device__ uint32_t panel(int end, int i) const {
    return stage(end + i / kStagePanels) + uint32_t(i % kStagePanels) * kPanelBytes;
  }
};

// The tiles of a block, as many as its neighbour's of the cluster: the last may have no rows.
struct Tiles {
  int first, step, end;
  __device__ explicit Tiles(int rows) : first(int(blockIdx.x)), step(int(gridDim.x)) {
    const int tiles = (rows + kTileRows - 1) / kTileRows;
    end = (tiles + kCluster - 1) / kCluster * kCluster;
  }
};

struct Maps {
  CUtensorMap left, right;
  CUtensorMap rows, more;  // what the norm reads of a tile: in shared memory, and if has_more, by itself
  bool has_more;
};

// A tile's rows of the left operand come from memory, and stages are few: they are ordered for the L2 cache this many
// blocks earlier, and what the norm reads when so many are left.
inline constexpr int kAhead = 8;

template <int kColumns>
__device__ void order_rows(const Maps& maps, int tile) {
  for (int column = 0; column < kColumns; column += 64) {
    cuda::prefetch_tile(maps.rows, column, tile * kTileRows);
    if (maps.has_more) cuda::prefetch_tile(maps.more, column, tile * kTileRows);
  }
}

// One thread. kRows: the right operand has `depth` rows of kColumns; else kColumns rows.
template <int kColumns, bool kRows>
__device__ void bring(const Layout<kColumns>& shared, const Maps& maps, const Tiles& tiles, int blocks, int rank) {
  using Shape = Layout<kColumns>;
  constexpr uint16_t kBoth = (1 << kCluster) - 1;
  constexpr int kHalf = kColumns / kCluster;
  const auto wait_for_room = [&](int count) {
    if (count >= Shape::kStages) cuda::barrier_wait(shared.empty(count), uint32_t(count / Shape::kStages - 1) % 2);
  };
  int count = 0, done = 0;
  for (int tile = tiles.first; tile < tiles.end; tile += tiles.step, ++done) {
    if (done > 0) cuda::barrier_wait(shared.tile_done(), uint32_t(done - 1) % 2);
    for (int block = 0; block < min(kAhead, blocks); ++block) {
      cuda::prefetch_tile(maps.left, block * kBlock, tile * kTileRows);
    }
    for (int block = 0; block < blocks; ++block, ++count) {
      if (block + kAhead < blocks) cuda::prefetch_tile(maps.left, (block + kAhead) * kBlock, tile * kTileRows);
      if (block == max(blocks - kAhead, 0)) order_rows<kColumns>(maps, tile);
      wait_for_room(count);
      const uint32_t to = shared.stage(count), right = to + Shape::kPanelBytes, full = shared.full(count);
      cuda::barrier_expect(full, Shape::kStageBytes);
      cuda::copy_tile(to, maps.left, block * kBlock, tile * kTileRows, full);
      if constexpr (kRows) {
        constexpr uint32_t kBytes = kBlock * cuda::kTileRowBytes;
#pragma unroll
        for (int i = 0; i < kHalf / 64; ++i) {
          const int panel = rank * (kHalf / 64) + i;
          cuda::copy_tile_to(kBoth, right + uint32_t(panel) * kBytes, maps.right, panel * 64, block * kBlock, full);
        }
      } else {
        cuda::copy_tile_to(kBoth, right + uint32_t(rank * kHalf * cuda::kTileRowBytes), maps.right, block * kBlock,
                           rank * kHalf, full);
      }
    }
    cuda::barrier_expect(shared.rows_here(), Shape::kPanels * Shape::kPanelBytes);
    for (int i = 0; i < Shape::kPanels; ++i) {
      if (i % Shape::kStagePanels == 0) wait_for_room(count + i / Shape::kStagePanels);
      cuda::copy_tile(shared.panel(count, i), maps.rows, i * 64, tile * kTileRows, shared.rows_here());
    }
  }
}

// A warpgroup's 64 rows of a tile: columns 0 .. kColumns / 2 - 1, then the others.
template <int kColumns>
using Accumulator = float[2][kColumns / 16][4];

// To the barriers of all blocks of the cluster.
__device__ inline void arrive_everywhere(uint32_t barrier) {
  const int lane = int(threadIdx.x) % 32;
  if (lane < kCluster) cuda::barrier_arrive_at(barrier, lane);
}

// c += rows of the left operand times the right one, `blocks` blocks from `count` on.
template <class N, int kColumns, bool kRows>
__device__ void multiply(const Layout<kColumns>& shared, int warpgroup, int count, int blocks,
                         Accumulator<kColumns>& c) {
  constexpr uint32_t kRightPanel = kBlock * cuda::kTileRowBytes;
  constexpr uint32_t kHalf = kRows ? kColumns / 128 * kRightPanel : kColumns / 2 * cuda::kTileRowBytes;
  constexpr uint64_t kStepA = 32 / 16, kStepB = (kRows ? 16 * cuda::kTileRowBytes : 32) / 16;
  cuda::hold_in_place(c[0]);
  cuda::hold_in_place(c[1]);
#pragma unroll 1
  for (int block = 0; block < blocks; ++block, ++count) {
    cuda::barrier_wait(shared.full(count), uint32_t(count / Layout<kColumns>::kStages) % 2);
    const uint32_t stage = shared.stage(count), right = stage + Layout<kColumns>::kPanelBytes;
    const uint64_t a = cuda::matrix_at(stage + uint32_t(warpgroup * kGroupRows * cuda::kTileRowBytes));
    const uint64_t b[2] = {cuda::matrix_at(right, kRightPanel), cuda::matrix_at(right + kHalf, kRightPanel)};
    cuda::begin_products();
#pragma unroll
    for (int k = 0; k < kBlock / 16; ++k) {
      cuda::multiply<N, kRows>(c[0], a + k * kStepA, b[0] + k * kStepB, true);
      cuda::multiply<N, kRows>(c[1], a + k * kStepA, b[1] + k * kStepB, true);
    }
    cuda::end_products();
    if (block == 0) continue;
    cuda::wait_for_products<1>();
    arrive_everywhere(shared.empty(count - 1));
  }
  cuda::wait_for_products<0>();
  arrive_everywhere(shared.empty(count - 1));
  cuda::hold_in_place(c[0]);
  cuda::hold_in_place(c[1]);
}

// Of the consumers of one block.
__device__ inline void sync_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(kConsumers * kWarpgroup) : "memory"); }

inline constexpr int kLanes = 8, kRowsAtOnce = 32 / kLanes;  // of a row, eight columns of each panel

// Rows of a tile in the panels.
template <class N, int kColumns>
class Strip {
 public:
  static constexpr int kPacks = kColumns / 64;

  // `end` as panel() has it. `first` panel: 0 or kPacks.
  __device__ Strip(const Layout<kColumns>& shared, int end, int first) : shared_(shared), end_(end), first_(first) {}
  // `row` of the tile.
  __device__ Packed<N> load(int row, int pack) const {
    const uint4 bits = cuda::load_shared_16(at(row, pack, int(threadIdx.x) % kLanes));
    return {{bits.x, bits.y, bits.z, bits.w}};
  }
  // A warp's 16 rows of accumulators, rounded.
  __device__ void store(int row, const Accumulator<kColumns>& c) const {
    const int lane = int(threadIdx.x) % 32, own = row + lane / 8 % 2 * 8 + lane % 8;
#pragma unroll
    for (int pair = 0; pair < kColumns / 16; ++pair) {
      constexpr int kTiles = kColumns / 16;  // of eight columns, in one half
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
