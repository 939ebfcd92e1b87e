// SPDX-License-Identifier: Apache-2.0
// Applies the activation to the products in the tile buffers (see matmul_activation_hopper.cuh). Three warps finish
// them, four rows at a time, while the next tile is multiplied. This takes about 18 instructions per element, two of
// which are exponential or reciprocal, so that finishing a tile of the backward takes about as long as multiplying a
// depth of 1,300. For smaller depths, the multiplying warps finish a quarter of the rows themselves; for gated kinds
// they do not, because it gained nothing.
#pragma once

#include "cuda/packed.cuh"
#include "ops/activation_math.cuh"
#include "ops/matmul/matmul_activation_hopper.cuh"

namespace gradmill::hopper_activation {

using cuda::Packed;

inline constexpr int kChunk = Packed<__half>::kSize;  // columns per lane

// For gated kinds, gate and up are side by side in x and dx, with `size` columns each.
template <class N>
struct Work {
  const N* bias;  // (columns of x), or null
  const N* x;     // for a shared backward
  N *dx, *y;      // y may be null in the backward
  int64_t x_stride, dx_stride, y_stride;
  int rows, depth, size;
  bool shared;  // the multiplying warps finish a part themselves, if they can (Pass::kShares)
};

// A lane's part of a batch of rows of x.
template <class N>
struct BatchOfX {
  Packed<N> gate[kBatchRows], up[kBatchRows];
};

// For gated kinds, half of a tile's columns belong to the gate.
template <class Pass, class N>
__device__ void add_bias(const Work<N>& work, const Tile& tile, Accumulator& c) {
  const N* from = work.bias + tile.column * Pass::kColumns + threadIdx.x % 4 * 2;
#pragma unroll
  for (int n = 0; n < kTileColumns / 8; ++n, from += 8) {
    if (n * 8 == Pass::kColumns) from += work.size - Pass::kColumns;
    const float2 pair = cuda::unpack_pair<N>(*reinterpret_cast<const uint32_t*>(from));
    c[n][0] += pair.x, c[n][2] += pair.x;
    c[n][1] += pair.y, c[n][3] += pair.y;
  }
}

// Loads chunk `chunk` (eight columns) of a row in a tile buffer.
template <class N>
__device__ Packed<N> load_chunk(uint32_t buffer, uint32_t row, uint32_t chunk) {
  const uint32_t at = buffer + chunk / 8 * kPanelBytes + row * cuda::kTileRowBytes;
  const uint4 bits = cuda::load_shared_16(at + (chunk % 8 ^ row % 8) * 16);
  return {{bits.x, bits.y, bits.z, bits.w}};
}

// Iterates over the tiles of the cluster for one finishing warp: batches of rows, first of one tile buffer and then of
// the other. The finishing warps take batches in turn.
class Cursor {
 public:
  static constexpr int kBatches = kGroupRows / kBatchRows, kBatchesOfWarp = kWarpRows / kBatchRows;

  // If `shared`, each multiplying warp finishes the first batch of its rows itself.
  __device__ Cursor(const Tiles& tiles, int rank, int finisher, bool shared)
      : tiles_(tiles), rank_(rank), finisher_(finisher), shared_(shared), index_(Tiles::first()), batch_(first()) {
    if (!done()) tile_ = tiles_[index_];
  }
  __device__ void advance() {
    batch_ += kFinishers;
    if (batch_ < batches()) return;
    group_ ^= 1;
    batch_ = first();
    if (group_ != 0) return;
    index_ = Tiles::next_index(index_);
    parity_ ^= 1;
    if (!done()) tile_ = tiles_[index_];
  }
  __device__ bool done() const { return index_ >= tiles_.count(); }
  __device__ bool is_first_batch() const { return batch_ < kFinishers; }
  __device__ bool is_last_batch() const { return batch_ + kFinishers >= batches(); }
  __device__ int group() const { return group_; }
  __device__ uint32_t parity() const { return parity_; }
  // The batch's first row in the tile buffer; the buffer's first row and the tile's first column in the result.
  __device__ int buffer_row() const {
    return (batch_ + (shared_ ? batch_ / (kBatchesOfWarp - 1) + 1 : 0)) * kBatchRows;
  }
  __device__ int row() const { return tile_.row * kClusterRows + rank_ * kTileRows + group_ * kGroupRows; }
  __device__ int column(int tile_columns) const { return tile_.column * tile_columns; }

 private:
  static_assert(kGroups == 2);
  // Alternates, so that no warp always has more batches.
  __device__ int first() const { return (finisher_ + group_) % kFinishers; }
  __device__ int batches() const { return shared_ ? kBatches - kGroupRows / kWarpRows : kBatches; }

  Tiles tiles_;
  int rank_, finisher_;
  bool shared_;
  int index_, group_ = 0, batch_;
  uint32_t parity_ = 0;
  Tile tile_{};
};

template <class N, class Act, bool kIsGated>
class Forward {
 public:
  static constexpr bool kRows = false, kGated = kIsGated, kShares = false;
  static constexpr int kBlock = kForwardBlock, kStages = kForwardStages, kSlots = 0;
  static constexpr int kChunks = (kGated ? kTileColumns / 2 : kTileColumns) / kChunk;  // per row of y
  static constexpr int kColumns = kChunks * kChunk;

  __device__ Forward(const Layout<Forward>&, const Work<N>& work, const Maps& maps, const Cursor&, int)
      : work_(work), maps_(maps) {}

  // Stores x directly from the tile buffer. The next GEMM reads y, while x waits for the backward.
  __device__ void begin_buffer(const Cursor& at, uint32_t buffer) const {
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel) {
      const int column = panel * 64, half = kGated && column >= kColumns ? work_.size - kColumns : 0;
      cuda::store_tile_streaming(maps_.x, at.column(kColumns) + column + half, at.row(),
                                 buffer + uint32_t(panel) * kPanelBytes);
    }
    cuda::commit_stores();
  }
  __device__ void end_buffer() const { cuda::wait_for_store_groups<0>(); }

  __device__ void finish(const Cursor& at, uint32_t buffer) const {
    constexpr int kRowsAtOnce = 32 / kChunks, kCount = kBatchRows / kRowsAtOnce;
    const int lane = int(threadIdx.x) % 32, chunk = lane % kChunks, first = at.buffer_row() + lane / kChunks;
    Packed<N> gate[kCount], up[kCount], y[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      gate[i] = load_chunk<N>(buffer, first + i * kRowsAtOnce, chunk);
      if constexpr (kGated) up[i] = load_chunk<N>(buffer, first + i * kRowsAtOnce, chunk + kChunks);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      y[i] = Packed<N>::of([&](int e) {
        const float value = Act::value(gate[i][e]);
        return kGated ? value * up[i][e] : value;
      });
    }
    const int row = at.row() + first, left = work_.rows - row;
    N* to = work_.y + row * work_.y_stride + at.column(kColumns) + chunk * kChunk;
#pragma unroll
    for (int i = 0; i < kCount; ++i, to += kRowsAtOnce * work_.y_stride) y[i].store_if(i * kRowsAtOnce < left, to);
  }

 private:
  const Work<N>& work_;
  const Maps& maps_;
};

// The copy engine loads batches of x a few batches in advance.
template <class N, class Act, bool kIsGated, bool kAgain>
class Gradient {
 public:
  static constexpr bool kRows = true, kGated = kIsGated, kShares = !kGated;
  static constexpr int kBlock = kBackwardBlock, kStages = kBackwardStages, kSlots = kGated ? 3 : 6;
  static constexpr int kColumns = kTileColumns;

  __device__ Gradient(const Layout<Gradient>& shared, const Work<N>& work, const Maps& maps, const Cursor& first,
                      int finisher)
      : shared_(shared), work_(work), maps_(maps), ahead_(first), finisher_(finisher) {
    for (int i = 0; i < kSlots; ++i) bring_x(i);
  }
  __device__ void begin_buffer(const Cursor&, uint32_t) const {}
  __device__ void end_buffer() const {}

  __device__ void finish(const Cursor& at, uint32_t buffer) {
    const uint32_t from = shared_.slot(finisher_, place_.stage) + threadIdx.x % 32 * 16;
    Packed<N> dy[kBatchRows];
    load_dy(buffer, at.buffer_row(), dy);
    cuda::barrier_wait(shared_.slot_here(finisher_, place_.stage), place_.parity);
    BatchOfX<N> x;
#pragma unroll
    for (int i = 0; i < kBatchRows; ++i) {
      x.gate[i] = load(from + i * kRowBytes);
      if constexpr (kGated) x.up[i] = load(from + (kBatchRows + i) * kRowBytes);
    }
    finish_rows(work_, at.row() + at.buffer_row(), at.column(kColumns), dy, x);
    cuda::show_to_products();  // the copy engine must not be faster than the last reads
    __syncwarp();
    bring_x(place_.stage);
    place_.advance();
  }

  // The same for a multiplying warp and its first rows, from `row` on, which start at `buffer_row` in the tile buffer.
  // The warp requests its part of x when its last products are in flight.
  __device__ static void ask_for_x(const Work<N>& work, int row, int column, BatchOfX<N>& x) {
    static_assert(!kGated);
    const N* from = work.x + row * work.x_stride + column + threadIdx.x % 32 * kChunk;
#pragma unroll
    for (int i = 0; i < kBatchRows; ++i, from += work.x_stride) {
      x.gate[i] = Packed<N>::load_if(work.shared && row + i < work.rows, from);
    }
  }
  __device__ static void finish_own(const Work<N>& work, int row, int column, uint32_t buffer, int buffer_row,
                                    const BatchOfX<N>& x) {
    __syncwarp();
    Packed<N> dy[kBatchRows];
    load_dy(buffer, buffer_row, dy);
    finish_rows(work, row, column, dy, x);
    __syncwarp();
  }

 private:
  static constexpr int kRowBytes = kTileColumns * 2;

  __device__ static void load_dy(uint32_t buffer, int buffer_row, Packed<N> (&dy)[kBatchRows]) {
#pragma unroll
    for (int i = 0; i < kBatchRows; ++i) dy[i] = load_chunk<N>(buffer, buffer_row + i, threadIdx.x % 32);
  }
  __device__ static void finish_rows(const Work<N>& work, int row, int tile_column, const Packed<N> (&dy)[kBatchRows],
                                     const BatchOfX<N>& x) {
    const int left = work.rows - row;
    const int64_t column = tile_column + threadIdx.x % 32 * kChunk;
    N *dx = work.dx + row * work.dx_stride + column, *y = work.y + row * work.y_stride + column;
#pragma unroll
    for (int i = 0; i < kBatchRows; ++i, dx += work.dx_stride, y += work.y_stride) {
      float value[kChunk];
      Packed<N>::of([&](int e) {
        const Point point = Act::point(x.gate[i][e]);
        value[e] = point.value;
        return __fmul_rn(kGated ? dy[i][e] * x.up[i][e] : dy[i][e], point.slope);
      }).store_if(i < left, dx);
      if constexpr (kGated) {
        Packed<N>::of([&](int e) { return dy[i][e] * value[e]; }).store_if(i < left, dx + work.size);
      }
      if constexpr (kAgain) {
        Packed<N>::of([&](int e) { return kGated ? value[e] * x.up[i][e] : value[e]; }).store_if(i < left, y);
      }
    }
  }
  __device__ static Packed<N> load(uint32_t from) {
    const uint4 bits = cuda::load_shared_16(from);
    return {{bits.x, bits.y, bits.z, bits.w}};
  }
  __device__ void bring_x(int slot) {
    if (!ahead_.done() && cuda::elect_one()) {
      const uint32_t to = shared_.slot(finisher_, slot), here = shared_.slot_here(finisher_, slot);
      const int column = ahead_.column(kColumns), row = ahead_.row() + ahead_.buffer_row();
      cuda::barrier_expect(here, shared_.kSlotBytes);
      cuda::copy_tile(to, maps_.x, column, row, here);
      if constexpr (kGated) cuda::copy_tile(to + kBatchRows * kRowBytes, maps_.x, column + work_.size, row, here);
    }
    ahead_.advance();
  }

  const Layout<Gradient>& shared_;
  const Work<N>& work_;
  const Maps& maps_;
  Cursor ahead_;
  int finisher_;
  cuda::RingPlace<kSlots> place_;
};

// The main loop of a finishing warp.
template <class N, class Pass>
__device__ void finish_tiles(const Layout<Pass>& shared, const Work<N>& work, const Maps& maps, const Tiles& tiles,
                             int rank, int finisher) {
  Cursor at(tiles, rank, finisher, Pass::kShares && work.shared);
  const bool leads = finisher == 0 && threadIdx.x % 32 == 0;
  Pass pass(shared, work, maps, at, finisher);
#pragma unroll 1
  for (; !at.done(); at.advance()) {
    const uint32_t buffer = shared.tile_buffer(at.group());
    if (at.is_first_batch()) {
      cuda::barrier_wait(shared.buffer_full(at.group()), at.parity());
      if (leads) pass.begin_buffer(at, buffer);
    }
    pass.finish(at, buffer);
    if (at.is_last_batch()) {
      if (leads) pass.end_buffer();
      cuda::barrier_arrive(shared.buffer_empty(at.group()));
    }
  }
}

}  // namespace gradmill::hopper_activation
