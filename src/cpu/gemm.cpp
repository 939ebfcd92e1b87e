// SPDX-License-Identifier: Apache-2.0
#include "cpu/gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>

#include "core/error.h"

namespace gradmill::cpu {
namespace {

// Keeps oneDNN from starting OpenMP threads of its own. The setting is per calling thread.
void keep_single_threaded() {
  thread_local const bool done = [] {
    omp_set_num_threads(1);
    return true;
  }();
  (void)done;
}

struct TileGrid {
  int64_t tile_m, tile_n, tiles_m, tiles_n;
};

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

// Splits `size` into even tiles of at most `limit`, in multiples of the kernel's 48 or 16.
int64_t even_tile(int64_t size, int64_t limit, int64_t multiple) {
  const int64_t parts = divide_up(size, limit);
  return std::min(size, divide_up(divide_up(size, parts), multiple) * multiple);
}

// Tiles are large enough that packing costs little and small enough to occupy a few dozen threads. Measured on sizes
// from 128 to 4096.
TileGrid choose_grid(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kTargetTiles = 16;
  constexpr double kSmallestTile = 6e6;  // FLOPs: about 60 microseconds
  int64_t limit_m = 256, limit_n = 384;
  TileGrid grid{};
  while (true) {
    grid.tile_m = even_tile(m, limit_m, 16);
    grid.tile_n = even_tile(n, limit_n, 16);
    grid.tiles_m = divide_up(m, grid.tile_m);
    grid.tiles_n = divide_up(n, grid.tile_n);
    const double tile_flops = 2.0 * double(grid.tile_m) * double(grid.tile_n) * double(k);
    if (grid.tiles_m * grid.tiles_n >= kTargetTiles || tile_flops < 2 * kSmallestTile) return grid;
    int64_t& larger = grid.tile_m >= grid.tile_n ? limit_m : limit_n;
    if (std::max(grid.tile_m, grid.tile_n) <= 32) return grid;
    larger = std::max(grid.tile_m, grid.tile_n) / 2;
  }
}

void add_bias(float* c, int64_t ldc, int64_t rows, int64_t cols, const float* bias) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) c[row * ldc + col] += bias[col];
  }
}

}  // namespace

void gemm_tile(const GemmTile& t) {
  keep_single_threaded();
  const dnnl_status_t status = dnnl_sgemm(t.transpose_a ? 'T' : 'N', t.transpose_b ? 'T' : 'N', t.m, t.n, t.k, t.alpha,
                                          t.a, t.lda, t.b, t.ldb, t.beta, t.c, t.ldc);
  if (status != dnnl_success) {
    throw Error(ExitCode::failure,
                fmt::format("oneDNN refused a {}x{}x{} product (status {})", t.m, t.n, t.k, int(status)),
                "please report this with the command you ran");
  }
}

void gemm(ThreadPool& pool, const GemmTile& product, const float* bias) {
  const TileGrid grid = choose_grid(product.m, product.n, product.k);
  pool.run(grid.tiles_m * grid.tiles_n, [&](int64_t index) {
    const int64_t row = index / grid.tiles_n * grid.tile_m, col = index % grid.tiles_n * grid.tile_n;
    GemmTile tile = product;
    tile.m = std::min(grid.tile_m, product.m - row);
    tile.n = std::min(grid.tile_n, product.n - col);
    tile.a += product.transpose_a ? row : row * product.lda;
    tile.b += product.transpose_b ? col * product.ldb : col;
    tile.c += row * product.ldc + col;
    gemm_tile(tile);
    if (bias != nullptr) add_bias(tile.c, tile.ldc, tile.m, tile.n, bias + col);
  });
}

}  // namespace gradmill::cpu
