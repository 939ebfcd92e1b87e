// SPDX-License-Identifier: Apache-2.0
// What products with a GELU on Hopper are made of: the share of the weight that a block keeps, the ring of activations
// that one thread fills and three warpgroups empty in turn, and what becomes of their tiles.
#pragma once

#include "cuda/mma.cuh"
#include "cuda/packed.cuh"
#include "cuda/tile_copy.cuh"
#include "cuda/wgmma.cuh"
#include "ops/activation_math.cuh"

namespace gradmill::hopper_mlp {

using cuda::Packed;

inline constexpr int kTileRows = 64, kBlock = 64;  // rows of a tile; columns of its operand that are brought at a time
inline constexpr int kMostDepth = 384, kStages = 8, kWarpgroup = 128;
inline constexpr int kConsumers = 3, kThreads = (kConsumers + 1) * kWarpgroup;  // one warpgroup starts copies
inline constexpr int kPassRows = kThreads / 8;  // of the weight, that all threads bring at once
static_assert(kPassRows == kBlock);
inline constexpr uint32_t kStageBytes = kTileRows * cuda::kTileRowBytes;
using Gelu = GeluTanh<false>;

template <class N>
struct Work {
  const N* weight;  // (F, K); in the backward (K, F)
  int64_t weight_stride;
  const N* bias;  // (F), or null
  N* x;           // (N, F) written; in the backward read
  int64_t x_stride;
  N* y;  // (N, F), or null
  int64_t y_stride;
  N* dx;  // (N, F); backward only
  int64_t dx_stride;
  int rows, depth, shares;
};

// Shared memory: the share of the weight, the ring of activations' stages, barriers.
struct Layout {
  uint32_t base, stages, barriers;

  __device__ Layout(const void* shared, uint32_t weight_bytes)
      : base((cuda::shared_address(shared) + 1023) & ~1023u),
        stages(base + weight_bytes),
        barriers(stages + kStages * kStageBytes) {}
  static size_t bytes(size_t weight_bytes) { return 1024 + weight_bytes + kStages * (kStageBytes + 16); }
  __device__ uint32_t stage(int i) const { return stages + uint32_t(i) * kStageBytes; }
  __device__ uint32_t full(int i) const { return barriers + uint32_t(i) * 8; }
  __device__ uint32_t empty(int i) const { return full(kStages + i); }
};

inline constexpr uint32_t kPanelBytes = kBlock * cuda::kTileRowBytes;

// Which column of its 32 the matrix units' column i is.
__device__ inline constexpr int column_at(int i) { return i % 8 / 2 * 8 + i / 8 * 2 + i % 2; }

// The forward's share: rows of the weight in the order of column_at, 64 columns of all of them, then the next 64. 64
// rows at a time, eight threads a row.
template <int kShare, class N>
__device__ inline void bring_rows(const Work<N>& work, uint32_t to, int first) {
  const int chunk = int(threadIdx.x) % 8, row = int(threadIdx.x) / 8;
  const int64_t step = kPassRows * work.weight_stride;
  const N* from = work.weight + (first + row / 32 * 32 + column_at(row % 32)) * work.weight_stride + chunk * 8;
  to += uint32_t(row * cuda::kTileRowBytes + (chunk ^ row % 8) * 16);
  for (int block = 0; block < work.depth; block += kBlock, from += kBlock, to += kShare * cuda::kTileRowBytes) {
#pragma unroll
    for (int pass = 0; pass < kShare / kPassRows; ++pass) {
      cuda::copy_async<16>(to + uint32_t(pass * kPassRows * cuda::kTileRowBytes), from + pass * step, true);
    }
  }
}

// The backward's: its columns of every row, 64 rows of a panel of 64 columns, then of the next panel, and so on.
template <int kShare, class N>
__device__ inline void bring_columns(const Work<N>& work, uint32_t to, int first) {
  constexpr int kPanels = kShare / kBlock, kBatch = 6;  // loads on their way at once
  const int chunk = int(threadIdx.x) % 8, row = int(threadIdx.x) / 8, end = work.depth / kBlock * kPanels;
  const N* from = work.weight + row * work.weight_stride + first + chunk * 8;
  to += uint32_t(row * cuda::kTileRowBytes + chunk % 4 * 4);
  for (int begin = 0; begin < end; begin += kBatch) {
    Packed<N> eight[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int panel = min(begin + b, end - 1);
      eight[b] = Packed<N>::load(from + panel / kPanels * kBlock * work.weight_stride + panel % kPanels * kBlock);
    }
#pragma unroll
    for (int i = 0; i < kBatch * 4; ++i) {
      const int panel = begin + i / 4, at = (chunk / 4 * 4 + i % 4) ^ row % 8;
      if (panel < end) cuda::store_shared(to + panel * kPanelBytes + uint32_t(at * 16), eight[i / 4].words[i % 4]);
    }
  }
}

// The tiles of a block: every workers-th from its own number on.
struct Tiles {
  int first, step, end;
  __device__ explicit Tiles(int rows, int shares)
      : first(int(blockIdx.x) / shares), step(int(gridDim.x) / shares), end((rows + kTileRows - 1) / kTileRows) {}
};

__device__ inline void bring_activations(const Layout& shared, const CUtensorMap& map, const Tiles& tiles, int blocks) {
  int count = 0;
  for (int tile = tiles.first; tile < tiles.end; tile += tiles.step) {
    for (int block = 0; block < blocks; ++block, ++count) {
      const int stage = count % kStages;
      if (count >= kStages) cuda::barrier_wait(shared.empty(stage), uint32_t(count / kStages - 1) % 2);
      cuda::barrier_expect(shared.full(stage), kStageBytes);
      cuda::copy_tile(shared.stage(stage), map, block * kBlock, tile * kTileRows, shared.full(stage));
    }
  }
}

// Warpgroups multiply in the order of their tiles: one that ran ahead could not tell a stage's phase from the one after
// the next.
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

// c += the tile whose blocks are the ring's from `count` on, times the share.
template <class N, int kShare, bool kRows>
__device__ inline void multiply_tile(const Layout& shared, const Order& order, int count, int blocks,
                                     float (&c)[kShare / 8][4]) {
  constexpr uint64_t kStepA = 32 / 16;
  constexpr uint64_t kStepB = (kRows ? 16 * cuda::kTileRowBytes : 32) / 16;
  constexpr uint32_t kBlockBytes = kShare * cuda::kTileRowBytes;
  cuda::hold_in_place(c);
  const auto release = [&](int at) {
    if (threadIdx.x % 32 == 0) cuda::barrier_arrive(shared.empty(at % kStages));
  };
  order.wait();
#pragma unroll 1
  for (int block = 0; block < blocks; ++block, ++count) {
    cuda::barrier_wait(shared.full(count % kStages), uint32_t(count / kStages) % 2);
    const uint64_t a = cuda::matrix_at(shared.stage(count % kStages));
    const uint64_t b = cuda::matrix_at(shared.base + uint32_t(block) * kBlockBytes, kPanelBytes);
    cuda::begin_products();
#pragma unroll
    for (int k = 0; k < kBlock / 16; ++k) cuda::multiply_add<N, kRows>(c, a + k * kStepA, b + k * kStepB);
    cuda::end_products();
    if (block == 0) continue;
    cuda::wait_for_products<1>();
    release(count - 1);
  }
  order.pass_on();
  cuda::wait_for_products<0>();
  release(count - 1);
  cuda::hold_in_place(c);
}

// This thread's rows (and eight below) and columns (and every 32nd) of a tile.
struct Place {
  int row, column;
  __device__ Place(int tile, int first_column)
      : row(tile * kTileRows + int(threadIdx.x) % kWarpgroup / 32 * 16 + int(threadIdx.x) % 32 / 4),
        column(first_column + int(threadIdx.x) % 4 * 8) {}
};

// What becomes of tiles. Rows beyond the last are computed like others and not stored: no branch keeps the compiler
// from mixing the elements of several rows.
template <class N, int kShare>
struct Forward {
  static constexpr bool kRows = false;
  const Work<N>& work;

  // Accumulators start with the bias.
  __device__ void prepare(const Place& place, float (&c)[kShare / 8][4]) {
#pragma unroll
    for (int group = 0; group < kShare / 32; ++group) {
      Packed<N> bias = {};
      if (work.bias) bias = Packed<N>::load(work.bias + place.column + group * 32);
#pragma unroll
      for (int i = 0; i < 16; ++i) c[group * 4 + i / 4][i % 4] = bias[i / 4 * 2 + i % 2];
    }
  }
  __device__ void finish(const Place& place, const float (&c)[kShare / 8][4]) {
#pragma unroll
    for (int i = 0; i < kShare / 16; ++i) {
      const int group = i / 2, half = i % 2, column = place.column + group * 32;
      const int64_t row = place.row + half * 8;
      const auto x = Packed<N>::of([&](int e) { return c[group * 4 + e / 2][half * 2 + e % 2]; });
      const auto y = Packed<N>::of([&](int e) { return Gelu::value(x[e]); });
      x.store_if(row < work.rows, work.x + row * work.x_stride + column);
      y.store_if(row < work.rows, work.y + row * work.y_stride + column);
    }
  }
};

// x comes to the cache while the tile is multiplied, and then four packs at a time: registers are short.
template <class N, int kShare, bool kAgain>
struct Gradient {
  static constexpr bool kRows = true;
  static constexpr int kBatch = 4, kBatches = kShare / 16 / kBatch;
  const Work<N>& work;

  // Of the thread's packs, counted over both rows of each 32 columns.
  __device__ const N* x_at(const Place& place, int pack) const {
    const int64_t row = min(place.row + pack % 2 * 8, work.rows - 1);
    return work.x + row * work.x_stride + place.column + pack / 2 * 32;
  }
  __device__ void prepare(const Place& place, float (&c)[kShare / 8][4]) {
#pragma unroll
    for (int pack = 0; pack < kShare / 16; pack += pack % 2 ? 3 : 1) {  // lines of 64 columns
      asm volatile("prefetch.global.L2 [%0];" ::"l"(x_at(place, pack)));
    }
#pragma unroll
    for (int i = 0; i < kShare / 2; ++i) c[i / 4][i % 4] = 0;
  }
  __device__ void finish(const Place& place, const float (&c)[kShare / 8][4]) {
    Packed<N> x[2][kBatch];
    const auto load = [&](int batch) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) x[batch % 2][i] = Packed<N>::load(x_at(place, batch * kBatch + i));
    };
    load(0);
#pragma unroll
    for (int batch = 0; batch < kBatches; ++batch) {
      if (batch + 1 < kBatches) load(batch + 1);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) finish_pack(place, c, batch * kBatch + i, x[batch % 2][i]);
    }
  }
  __device__ void finish_pack(const Place& place, const float (&c)[kShare / 8][4], int pack, const Packed<N>& x) {
    const int group = pack / 2, half = pack % 2, column = place.column + group * 32;
    const int64_t row = place.row + half * 8;
    float value[8];
    const auto dx = Packed<N>::of([&](int e) {
      const Point point = Gelu::point(x[e]);
      value[e] = point.value;
      return c[group * 4 + e / 2][half * 2 + e % 2] * point.slope;
    });
    dx.store_if(row < work.rows, work.dx + row * work.dx_stride + column);
    if constexpr (kAgain) {
      const auto y = Packed<N>::of([&](int e) { return value[e]; });
      y.store_if(row < work.rows, work.y + row * work.y_stride + column);
    }
  }
};
template <class N, int kShare>
using Backward = Gradient<N, kShare, false>;
template <class N, int kShare>
using BackwardAgain = Gradient<N, kShare, true>;

}  // namespace gradmill::hopper_mlp
