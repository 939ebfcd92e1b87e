// SPDX-License-Identifier: Apache-2.0
// The multiplying part of GEMMs with an activation on Hopper: the ring of operands, which one thread fills and two
// warpgroups consume, and the tile buffers that receive the rounded results. matmul_activation_finish.cuh processes
// these; it also defines the forward and the backward, which are passed as Pass.
#pragma once

#include "cuda/cluster.cuh"
#include "cuda/mma.cuh"
#include "cuda/tile_copy.cuh"
#include "cuda/wgmma.cuh"

namespace gradmill::hopper_activation {

inline constexpr int kTileRows = 128, kTileColumns = 256;  // of a block's result
inline constexpr int kWarpgroup = 128, kGroups = 2, kGroupRows = kTileRows / kGroups, kWarpRows = 16;
// Two warpgroups multiply. In the third, one warp starts copies and the others finish tiles.
inline constexpr int kThreads = (kGroups + 1) * kWarpgroup, kFinishers = 3;
// Blocks with the same columns of the result each load half of the right operand for both.
inline constexpr int kCluster = 2, kClusterRows = kCluster * kTileRows;
// The tile buffer of a warpgroup consists of panels of 64 columns.
inline constexpr int kPanels = kTileColumns / 64;
inline constexpr uint32_t kPanelBytes = kGroupRows * cuda::kTileRowBytes, kTileBufferBytes = kPanels * kPanelBytes;
inline constexpr int kBatchRows = 4;  // that a finishing warp processes at a time
// Registers per thread in the backward; the kernel starts with 168 for every thread.
inline constexpr int kMultiplierRegisters = 208, kFinisherRegisters = 88;
// Up to this depth, the multiplying warps finish a part of the backward; otherwise finishing would take longer than
// multiplying.
inline constexpr int64_t kMostSharedDepth = 1280;
// The depth of one stage, and the number of stages in flight. The backward also needs memory for x.
inline constexpr int kForwardBlock = 64, kForwardStages = 3, kBackwardBlock = 32, kBackwardStages = 5;

// Shared memory: stages of operands; tile buffers; in the backward, slots of the finishing warps for batches of x;
// barriers.
template <class Pass>
struct Layout {
  static constexpr int kBlock = Pass::kBlock;
  static constexpr uint32_t kLeftBytes = kTileRows * kBlock * 2;
  static constexpr uint32_t kRightBytes = kTileColumns * kBlock * 2, kStageBytes = kLeftBytes + kRightBytes;
  static constexpr int kStages = Pass::kStages, kSlots = Pass::kSlots;
  static constexpr uint32_t kSlotBytes = (Pass::kGated ? 2 : 1) * kBatchRows * kTileColumns * 2;
  static constexpr uint32_t kTileBuffers = kStages * kStageBytes, kSlotsAt = kTileBuffers + kGroups * kTileBufferBytes;
  static constexpr uint32_t kBarriers = kSlotsAt + kFinishers * kSlots * kSlotBytes;
  static constexpr size_t kBytes = 1024 + kBarriers + 8 * (2 * kStages + 2 * kGroups + kFinishers * kSlots);
  static_assert(kBytes <= 227 * 1024);
  uint32_t base;

  __device__ explicit Layout(const void* shared) : base((cuda::shared_address(shared) + 1023) & ~1023u) {}
  __device__ uint32_t stage(int i) const { return base + uint32_t(i) * kStageBytes; }
  // The warpgroup's rows of the result.
  __device__ uint32_t tile_buffer(int group) const { return base + kTileBuffers + uint32_t(group) * kTileBufferBytes; }
  __device__ uint32_t slot(int finisher, int i) const {
    return base + kSlotsAt + uint32_t(finisher * kSlots + i) * kSlotBytes;
  }
  __device__ uint32_t full(int i) const { return base + kBarriers + uint32_t(i) * 8; }
  __device__ uint32_t empty(int i) const { return full(kStages + i); }
  __device__ uint32_t buffer_full(int group) const { return full(2 * kStages + group); }
  __device__ uint32_t buffer_empty(int group) const { return full(2 * kStages + kGroups + group); }
  __device__ uint32_t slot_here(int finisher, int i) const {
    return full(2 * kStages + 2 * kGroups + finisher * kSlots + i);
  }

  // Called by one thread.
  __device__ void init_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      cuda::barrier_init(full(i), 1);
      cuda::barrier_init(empty(i), kCluster * kGroups * kWarpgroup / 32);
    }
    for (int group = 0; group < kGroups; ++group) {
      cuda::barrier_init(buffer_full(group), kWarpgroup);
      cuda::barrier_init(buffer_empty(group), kFinishers * 32);
    }
    for (int i = 0; i < kFinishers * kSlots; ++i) cuda::barrier_init(slot_here(0, i), 1);
    cuda::barrier_init_done();
  }
};

// The tiles of the result: (rows of a cluster, columns). They are ordered in bands of eight columns of tiles, so that
// the L2 cache holds most of what clusters load at the same time.
struct Tile {
  int row, column;  // in tiles
};
struct Tiles {
  static constexpr int kBand = 8;
  int rows, columns;  // in tiles
  __device__ int count() const { return rows * columns; }
  __device__ Tile operator[](int i) const {
    const int band = i / (rows * kBand), width = min(kBand, columns - band * kBand), within = i - band * rows * kBand;
    return {within / width, band * kBand + within % width};
  }
  // The indices of this cluster's tiles.
  __device__ static int first() { return int(blockIdx.x) / kCluster; }
  __device__ static int next_index(int i) { return i + int(gridDim.x) / kCluster; }
  // Calls of(tile, index of the next tile) for each of them.
  template <class Of>
  __device__ void each(Of&& of) const {
#pragma unroll 1
    for (int i = first(); i < count(); i = next_index(i)) of((*this)[i], next_index(i));
  }
};

// The right operand of the forward has one row per column of the result. The rows of a tile are two pieces of 128; for
// gated kinds, one of the gate and one of up. The right operand of the backward has one column per column
// (Pass::kRows).
struct Maps {
  CUtensorMap left, right, x;
};

// Loads this block's part of the right operand for both blocks of the cluster.
template <class Pass>
__device__ void bring_right(const CUtensorMap& map, const Tile& tile, int depth, int size, int rank, uint32_t right,
                            uint32_t full) {
  constexpr uint16_t kAll = (1 << kCluster) - 1;
  constexpr int kBlock = Pass::kBlock, kPart = kTileColumns / kCluster;
  const uint32_t to = right + uint32_t(rank * kPart * kBlock * 2);
  if constexpr (Pass::kRows) {
#pragma unroll
    for (int panel = 0; panel < kPart / 64; ++panel) {
      const int column = tile.column * kTileColumns + rank * kPart + panel * 64;
      cuda::copy_tile_to(kAll, to + uint32_t(panel * kBlock * cuda::kTileRowBytes), map, column, depth, full);
    }
  } else {
    const int first = Pass::kGated ? rank * size + tile.column * kPart : tile.column * kTileColumns + rank * kPart;
    cuda::copy_tile_to(kAll, to, map, depth, first, full);
  }
}

// Run by one thread. Returns when the other block of the cluster will no longer arrive at this block's barriers.
template <class Pass>
__device__ void bring(const Layout<Pass>& shared, const Maps& maps, const Tiles& tiles, int depth, int size, int rank) {
  constexpr int kBlock = Pass::kBlock;
  cuda::RingPlace<Pass::kStages> place;
  tiles.each([&](const Tile& tile, int next) {
    const int row = tile.row * kClusterRows + rank * kTileRows;
    // Prefetches the rows of the next tile into the L2 cache. Each of the clusters that will need them prefetches a
    // part.
    const Tile after = tiles[min(next, tiles.count() - 1)];
    const int next_row = after.row * kClusterRows + rank * kTileRows;
    int near = after.column % Tiles::kBand * kBlock;
#pragma unroll 1
    for (int block = 0; block < depth; block += kBlock, place.advance()) {
      const uint32_t full = shared.full(place.stage), left = shared.stage(place.stage);
      cuda::barrier_wait(shared.empty(place.stage), place.parity ^ 1);  // does not wait in the first round
      cuda::barrier_expect(full, shared.kStageBytes);
      cuda::copy_tile(left, maps.left, block, row, full);
      bring_right<Pass>(maps.right, tile, block, size, rank, left + shared.kLeftBytes, full);
      if (block != near) continue;
      cuda::prefetch_tile(maps.left, block, next_row);
      near += Tiles::kBand * kBlock;
    }
  });
#pragma unroll 1
  for (int i = 0; i < Pass::kStages; ++i, place.advance()) {
    cuda::barrier_wait(shared.empty(place.stage), place.parity ^ 1);
  }
}

using Accumulator = float[kTileColumns / 8][4];

// Multiplies a warpgroup's rows of a tile. Calls meanwhile() while the last products are in flight.
template <class N, class Pass, class Meanwhile>
__device__ void multiply_tile(const Layout<Pass>& shared, int group, int blocks, cuda::RingPlace<Pass::kStages>& place,
                              Accumulator& c, Meanwhile&& meanwhile) {
  constexpr bool kRows = Pass::kRows;
  constexpr int kBlock = Pass::kBlock;
  constexpr uint64_t kStepA = 32 / 16, kStepB = (kRows ? 16 * cuda::kTileRowBytes : 32) / 16;
  int before = 0;  // the stage of the previous block
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    cuda::barrier_wait(shared.full(place.stage), place.parity);
    const uint32_t left = shared.stage(place.stage), right = left + shared.kLeftBytes;
    const auto rows_at = [](uint32_t address) {
      return kBlock == 64 ? cuda::matrix_at(address) : cuda::short_matrix_at(address);
    };
    const uint64_t a = rows_at(left + uint32_t(group * kGroupRows * kBlock * 2));
    const uint64_t b = kRows ? cuda::matrix_at(right, kBlock * cuda::kTileRowBytes) : rows_at(right);
    cuda::begin_products();
#pragma unroll
    for (int k = 0; k < kBlock / 16; ++k) {
      cuda::multiply<N, kRows>(c, a + k * kStepA, b + k * kStepB, k > 0 || block > 0);
    }
    cuda::end_products();
    if (block > 0) {
      cuda::wait_for_products<1>();
      cuda::barrier_arrive_everywhere<kCluster>(shared.empty(before));
    }
    before = place.stage;
    place.advance();
  }
  meanwhile();
  cuda::wait_for_products<0>();
  cuda::barrier_arrive_everywhere<kCluster>(shared.empty(before));
  cuda::hold_in_place(c);
}

// Rounds the accumulators and stores them as rows of the warpgroup's tile buffer.
template <class N>
__device__ void store_rounded(uint32_t buffer, const Accumulator& c) {
  const uint32_t lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
  const uint32_t at = buffer + row * cuda::kTileRowBytes + (lane / 16 ^ row % 8) * 16;
#pragma unroll
  for (int pair = 0; pair < kTileColumns / 16; ++pair) {
    const auto &left = c[2 * pair], &right = c[2 * pair + 1];
    const uint32_t four[4] = {cuda::pack_pair<N>(left[0], left[1]), cuda::pack_pair<N>(left[2], left[3]),
                              cuda::pack_pair<N>(right[0], right[1]), cuda::pack_pair<N>(right[2], right[3])};
    cuda::store_matrices((at ^ uint32_t(pair % 4 * 32)) + uint32_t(pair / 4) * kPanelBytes, four);
  }
}

}  // namespace gradmill::hopper_activation
