// SPDX-License-Identifier: Apache-2.0
// The gradient of tables with so few entries that one digit distinguishes them: characters, bytes, positions, types.
// Sorting all rows and summing them in that order would take four dependent kernels. Here each block sorts a tile of
// rows in shared memory and sums its few columns entry by entry; a second kernel adds the tiles. Tables with the same
// dy share the kernels, since one table has too little work for all multiprocessors. Memory traffic: dy once (other
// tables find it in the L2 cache), and a table of partial sums per tile twice.
#pragma once

#include <algorithm>

#include "cuda/packed.cuh"
#include "ops/embedding/embedding_sort.cuh"

namespace gradmill {
namespace {

constexpr int kFewThreads = 512, kFewWarps = kFewThreads / cuda::kWarpSize;
constexpr int kFewPerWarp = kEmbeddingTile / kFewWarps, kFewPerLane = kFewPerWarp / cuda::kWarpSize;
static_assert(kFewThreads >= kDigits && kFewPerLane * cuda::kWarpSize == kFewPerWarp);

struct FewTable {
  const int32_t* indices;
  float* partials;  // (tiles, entries, cols)
  float* dtable;
  int entries;
  float scale, beta;
};
struct FewTables {
  FewTable tables[kMaxEmbeddingTables];
  int count = 0;
};
template <class N>
struct FewRows {
  const N* dy;
  int64_t dy_stride, rows, cols;
  int slices;  // parts that the columns are divided into
};

// Finds the lanes with the same digit; `valid` marks the lanes that have one.
__device__ inline unsigned lanes_with(int digit, unsigned valid) {
  unsigned same = valid;
#pragma unroll
  for (int bit = 1; bit < kDigits; bit *= 2) {
    const bool set = (digit & bit) != 0;
    const unsigned others = __ballot_sync(0xffffffffu, set);
    same &= set ? others : ~others;
  }
  return same;
}

// `sorted` receives the tile's rows by entry, in row order for equal entries, and `starts` the start of each entry.
// kRun: number of neighbours in `sorted` that one thread reads; a gap after each run spreads them over the banks.
template <int kRun>
struct TileSort {
  int next[kFewWarps][kDigits];  // first the count of each digit per warp, then the destinations
  int sums[kFewWarps];
  int starts[kDigits + 1];
  int sorted[kEmbeddingTile + kEmbeddingTile / kRun];

  static __device__ int slot(int i) { return i + i / kRun; }
  __device__ int entry(int i) const { return sorted[slot(i)] >> 16; }
  static __device__ int row_of(int packed) { return packed & 0xffff; }

  __device__ void run(const int32_t* __restrict__ indices, int count) {
    static_assert(kEmbeddingTile <= 1 << 16);
    const int lane = threadIdx.x % cuda::kWarpSize, warp = threadIdx.x / cuda::kWarpSize;
    const int first = warp * kFewPerWarp + lane;
    int entries[kFewPerLane], ranks[kFewPerLane];
#pragma unroll
    for (int i = 0; i < kFewPerLane; ++i) {
      const int row = first + i * cuda::kWarpSize;
      entries[i] = row < count ? indices[row] : -1;
    }
    for (int digit = lane; digit < kDigits; digit += cuda::kWarpSize) next[warp][digit] = 0;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kFewPerLane; ++i) {
      const bool valid = entries[i] >= 0;
      const unsigned same = lanes_with(entries[i], __ballot_sync(0xffffffffu, valid));
      const int before = __popc(same & ((1u << lane) - 1));
      const int seen = valid ? next[warp][entries[i]] : 0;
      ranks[i] = seen + before;
      __syncwarp();
      if (valid && before == 0) next[warp][entries[i]] = seen + __popc(same);
      __syncwarp();
    }
    __syncthreads();
    place_digits();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kFewPerLane; ++i) {
      if (entries[i] < 0) continue;
      sorted[slot(next[warp][entries[i]] + ranks[i])] = entries[i] << 16 | (first + i * cuda::kWarpSize);
    }
    __syncthreads();
  }

 private:
  __device__ void place_digits() {
    const int digit = threadIdx.x;
    int total = 0;
    if (digit < kDigits) {
#pragma unroll
      for (int w = 0; w < kFewWarps; ++w) total += next[w][digit];
    }
    int start = sum_before(total, sums);
    if (digit > kDigits) return;
    starts[digit] = start;
    if (digit == kDigits) return;
#pragma unroll
    for (int w = 0; w < kFewWarps; ++w) {
      const int count = next[w][digit];
      next[w][digit] = start;
      start += count;
    }
  }
};

// Processes one table (blockIdx.y), one tile of rows and kGroup * kPack of the columns. A group of kGroup threads takes
// kRun neighbours of the sorted rows. If its first rows continue an entry of an earlier group, their sum is passed to
// the group that has the start of the entry.
template <class N, int kPack, int kGroup>
__global__ void __launch_bounds__(kFewThreads, 2)
    sum_tile_kernel(const __grid_constant__ FewTables few, const FewRows<N> args) {
  constexpr int kGroups = kFewThreads / kGroup, kRun = kEmbeddingTile / kGroups, kBatch = 8;
  static_assert(kRun % kBatch == 0);
  using Floats = cuda::Pack<float, kPack>;
  __shared__ TileSort<kRun> tile;
  __shared__ Floats carried[kGroups][kGroup];
  const FewTable& table = few.tables[blockIdx.y];
  const int64_t index = blockIdx.x / static_cast<unsigned>(args.slices), begin = index * kEmbeddingTile;
  const int count = static_cast<int>(min(int64_t{kEmbeddingTile}, args.rows - begin));
  tile.run(table.indices + begin, count);

  const int group = threadIdx.x / kGroup, place = threadIdx.x % kGroup;
  const int64_t col = (int64_t{blockIdx.x % static_cast<unsigned>(args.slices)} * kGroup + place) * kPack;
  float* partials = table.partials + index * table.entries * args.cols + col;
  const int first = group * kRun, last = min(first + kRun, count);
  const bool has_rows = first < last && col < args.cols;
  Floats sum{};
  bool continues = false;
  int entry = 0;
  if (has_rows) {
    entry = tile.entry(first);
    continues = first > 0 && tile.entry(first - 1) == entry;
    const N* dy = args.dy + begin * args.dy_stride + col;
    for (int at = first; at < last; at += kBatch) {
      int packed[kBatch];
      cuda::Packed<N, kPack> rows[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        packed[b] = tile.sorted[tile.slot(min(at + b, last - 1))];
        rows[b] = cuda::Packed<N, kPack>::load(dy + tile.row_of(packed[b]) * args.dy_stride);
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        if (at + b >= last) break;
        if (packed[b] >> 16 != entry) {
          if (continues)
            carried[group][place] = sum;
          else
            sum.store(partials + entry * args.cols);
          continues = false;
          sum = {};
          entry = packed[b] >> 16;
        }
#pragma unroll
        for (int j = 0; j < kPack; ++j) sum.values[j] += rows[b][j];
      }
    }
    if (continues) carried[group][place] = sum;
  }
  __syncthreads();
  if (col >= args.cols) return;
  if (has_rows && !continues) {
    const int end = tile.starts[entry + 1];
#pragma unroll 4
    for (int next = group + 1; next * kRun < end; ++next) {
#pragma unroll
      for (int j = 0; j < kPack; ++j) sum.values[j] += carried[next][place].values[j];
    }
    sum.store(partials + entry * args.cols);
  }
  for (int unused = group; unused < table.entries; unused += kGroups) {
    if (tile.starts[unused] == tile.starts[unused + 1]) Floats{}.store(partials + unused * args.cols);
  }
}

constexpr int kTilesThreads = 128;

// dtable = scale * (the tiles' sums, in order) + beta * dtable, for one table (blockIdx.y). The launch bounds are
// needed because otherwise the compiler saves registers and loads only three tiles at a time.
template <int kPack>
__global__ void __launch_bounds__(kTilesThreads, 8)
    add_tiles_kernel(const __grid_constant__ FewTables few, int64_t tiles, int64_t cols) {
  constexpr int kBatch = 8;
  using Floats = cuda::Pack<float, kPack>;
  const FewTable& table = few.tables[blockIdx.y];
  const int64_t i = (int64_t{blockIdx.x} * kTilesThreads + threadIdx.x) * kPack, size = table.entries * cols;
  if (i >= size) return;
  Floats sum{}, old{};
  if (table.beta != 0) old = Floats::load(table.dtable + i);
  for (int64_t first = 0; first < tiles; first += kBatch) {
    Floats partials[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      partials[b] = first + b < tiles ? Floats::load(table.partials + (first + b) * size + i) : Floats{};
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
#pragma unroll
      for (int j = 0; j < kPack; ++j) sum.values[j] += partials[b].values[j];
    }
  }
#pragma unroll
  for (int j = 0; j < kPack; ++j) sum.values[j] = fmaf(table.scale, sum.values[j], table.beta * old.values[j]);
  sum.store(table.dtable + i);
}

// Each thread processes kPack columns. Four threads read 64 bytes of a row, or 32 threads read single elements.
template <class N, int kPack>
void sum_few(cudaStream_t stream, const FewTables& few, FewRows<N> args) {
  constexpr int kGroup = kPack == 1 ? cuda::kWarpSize : 4, kCols = kGroup * kPack, kJoin = kPack == 1 ? 1 : 4;
  const int64_t tiles = (args.rows + kEmbeddingTile - 1) / kEmbeddingTile;
  const auto num_tables = static_cast<unsigned>(few.count);
  args.slices = static_cast<int>((args.cols + kCols - 1) / kCols);
  cuda::launch({dim3(static_cast<unsigned>(tiles * args.slices), num_tables), kFewThreads, stream},
               sum_tile_kernel<N, kPack, kGroup>, few, args);
  int most = 0;
  for (int i = 0; i < few.count; ++i) most = std::max(most, few.tables[i].entries);
  const int64_t blocks = (most * args.cols / kJoin + kTilesThreads - 1) / kTilesThreads;
  cuda::launch({dim3(static_cast<unsigned>(blocks), num_tables), kTilesThreads, stream}, add_tiles_kernel<kJoin>, few,
               tiles, args.cols);
}

}  // namespace
}  // namespace gradmill
