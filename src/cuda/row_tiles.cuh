// SPDX-License-Identifier: Apache-2.0
// How element-wise kernels cover a (rows, cols) tensor: each thread processes one pack of columns in a few rows. So its
// loads are independent of each other, and no index is ever divided.
#pragma once

#include <cassert>
#include <cstdint>

#include "cuda/launch.h"

namespace gradmill::cuda {

// Each row consists of `packs` packs. A block covers blockDim.x packs of blockDim.y * kRows rows.
struct RowTiles {
  int64_t rows, packs;
  uint32_t tiles_per_row;
};

inline constexpr int kTileThreads = 256;

// The position of a thread. Its row k is blockDim.y rows below its row k - 1.
struct TilePlace {
  int64_t pack, first_row, end_row;

  template <int kRows>
  __device__ static TilePlace of(const RowTiles& tiles) {
    const uint32_t tile_row = blockIdx.x / tiles.tiles_per_row;
    const uint32_t tile_col = blockIdx.x - tile_row * tiles.tiles_per_row;
    return {int64_t{tile_col} * blockDim.x + threadIdx.x, int64_t{tile_row} * (kRows * blockDim.y) + threadIdx.y,
            tiles.rows};
  }
  __device__ int64_t row(int k) const { return first_row + k * blockDim.y; }
  __device__ bool has(int k) const { return row(k) < end_row; }
};

// The number of packs of a row in one block. Among the widths that are whole lines of memory, takes the largest one
// that leaves the fewest threads idle: a row of 48 packs is three times 16, while 64 would leave a quarter idle. Flat
// tensors are one row.
inline dim3 tile_shape(int64_t rows, int64_t packs) {
  if (rows < 4) return dim3(kTileThreads);
  unsigned best = 64;
  const auto covered = [&](unsigned width) { return (packs + width - 1) / width * width; };
  for (unsigned width : {32u, 16u}) {
    if (rows >= kTileThreads / width && covered(width) < covered(best)) best = width;
  }
  return dim3(best, kTileThreads / best);
}

template <int kRows, class... Params, class... Args>
void launch_tiles(cudaStream_t stream, int64_t rows, int64_t packs, void (*kernel)(RowTiles, Params...),
                  const Args&... args) {
  if (rows == 0 || packs == 0) return;
  const dim3 block = tile_shape(rows, packs);
  const int64_t tiles_per_row = (packs + block.x - 1) / block.x;
  const int64_t tile_rows = (rows + kRows * block.y - 1) / (kRows * block.y);
  assert(tiles_per_row * tile_rows < (int64_t{1} << 31));
  launch(LaunchConfig{dim3(static_cast<unsigned>(tiles_per_row * tile_rows)), block, stream}, kernel,
         RowTiles{rows, packs, static_cast<uint32_t>(tiles_per_row)}, args...);
}

}  // namespace gradmill::cuda
