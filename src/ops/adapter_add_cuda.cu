// SPDX-License-Identifier: Apache-2.0
// Adds a low-rank adapter to an output on CUDA: the matrix units compute h Bᵀ while y streams through. Memory-bound: 4
// bytes per bf16 element to read and write y (6 if it is kept), for any rank.
//
// A warp has 32 columns in four 16 x 8 accumulators. Their columns are assigned so that a lane's eight values in a row
// are neighbours: column n of tile j (n = 2q + e) is column 8q + 2j + e of the 32. The part of B for these columns
// stays in registers while the warp processes its rows, 16 at a time.
#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/mma.cuh"
#include "cuda/packed.cuh"
#include "cuda/reduce.cuh"
#include "ops/adapter_add.h"

namespace gradmill {
namespace {

using cuda::kWarpSize;
using cuda::Packed;

constexpr int kWarps = 8, kWarpColumns = 32, kTiles = 4, kPack = 8;
constexpr int kBlockColumns = kWarps * kWarpColumns, kBlockRows = 64, kStepRows = 16;

template <class N>
struct AdapterRows {
  N* y;
  const N *h, *b;
  int64_t y_stride, h_stride, rows, cols;
  int rank;
  float scale;
  const float* gain;  // may be null
  const N* bias;      // may be null
  N* kept;            // may be null
  int64_t kept_stride;
};

// Elements k and k + 1 of a row with `rank` elements; zero after its end.
template <class N, bool kAligned>
__device__ uint32_t load_pair(const N* row, int k, int rank) {
  if constexpr (kAligned) {
    return k < rank ? *reinterpret_cast<const uint32_t*>(row + k) : 0;
  } else {
    const auto* bits = reinterpret_cast<const uint16_t*>(row);
    const uint32_t low = k < rank ? bits[k] : 0, high = k + 1 < rank ? bits[k + 1] : 0;
    return low | high << 16;
  }
}

// Eight neighbouring elements of a row, of which the first `there` exist.
template <class N, bool kAligned>
__device__ Packed<N, kPack> load_row(const N* from, int there) {
  if constexpr (kAligned) {
    if (there > 0) return Packed<N, kPack>::load(from);
    return {};
  } else {
    return Packed<N, kPack>::of([&](int i) { return i < there ? cuda::to_float(from[i]) : 0.0f; });
  }
}
template <class N, bool kAligned>
__device__ void store_row(const Packed<N, kPack>& values, N* to, int there) {
  if constexpr (kAligned) {
    if (there > 0) values.store(to);
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (i < there) to[i] = cuda::from_float<N>(values[i]);
    }
  }
}

// kSteps: each step covers 16 ranks.
template <class N, int kSteps, bool kAligned>
__global__ void __launch_bounds__(kWarps* kWarpSize, kSteps <= 2 ? 3 : 1)
    adapter_add_kernel(const AdapterRows<N> args) {
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  const int64_t warp_column = int64_t{blockIdx.x} * kBlockColumns + threadIdx.y * kWarpColumns;
  if (warp_column >= args.cols) return;
  uint32_t b[kSteps][kTiles][2];
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const int64_t column = warp_column + g / 2 * 8 + 2 * j + g % 2;
    const N* row = args.b + column * args.rank;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int rank = column < args.cols ? args.rank : 0;
      b[s][j][0] = load_pair<N, kAligned>(row, 16 * s + 2 * t, rank);
      b[s][j][1] = load_pair<N, kAligned>(row, 16 * s + 2 * t + 8, rank);
    }
  }
  const int64_t column = warp_column + t * kPack;
  const int there = static_cast<int>(max(int64_t{0}, min(int64_t{kPack}, args.cols - column)));
  float gain[kPack], bias[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    gain[i] = args.gain && i < there ? args.gain[column + i] : 1.0f;
    bias[i] = args.bias && i < there ? cuda::to_float(args.bias[column + i]) : 0.0f;
  }
  const int64_t begin = int64_t{blockIdx.y} * kBlockRows, end = min(begin + kBlockRows, args.rows);
  const auto load_y = [&](int64_t row) {
    return load_row<N, kAligned>(args.y + row * args.y_stride + column, row < end ? there : 0);
  };
  // The next rows are loaded while the current ones are processed.
  Packed<N, kPack> next[2] = {load_y(begin + g), load_y(begin + g + 8)};
#pragma unroll 1
  for (int64_t first = begin; first < end; first += kStepRows) {
    const int64_t rows[2] = {first + g, first + g + 8};
    const Packed<N, kPack> y[2] = {next[0], next[1]};
#pragma unroll
    for (int k = 0; k < 2; ++k) next[k] = load_y(rows[k] + kStepRows);
    float sums[kTiles][4] = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      uint32_t a[4];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const N* row = args.h + rows[k] * args.h_stride;
        const int rank = rows[k] < end ? args.rank : 0;
        a[k] = load_pair<N, kAligned>(row, 16 * s + 2 * t, rank);
        a[k + 2] = load_pair<N, kAligned>(row, 16 * s + 2 * t + 8, rank);
      }
#pragma unroll
      for (int j = 0; j < kTiles; ++j) cuda::mma<N>(sums[j], a, b[s][j][0], b[s][j][1]);
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const auto out = Packed<N, kPack>::of(
          [&](int i) { return fmaf(gain[i], fmaf(args.scale, sums[i / 2][2 * k + i % 2], y[k][i]), bias[i]); });
      const int count = rows[k] < end ? there : 0;
      store_row<N, kAligned>(out, args.y + rows[k] * args.y_stride + column, count);
      if (args.kept) store_row<N, kAligned>(out, args.kept + rows[k] * args.kept_stride + column, count);
    }
  }
}

template <class N, bool kAligned>
auto kernel_for(int64_t rank) {
  if (rank <= 16) return adapter_add_kernel<N, 1, kAligned>;
  if (rank <= 32) return adapter_add_kernel<N, 2, kAligned>;
  if (rank <= 64) return adapter_add_kernel<N, 4, kAligned>;
  return adapter_add_kernel<N, 8, kAligned>;
}

// Pairs of elements of h and B are read as words.
bool has_even_rows(const TensorView& view) {
  return view.row_stride % 2 == 0 && view.cols() % 2 == 0 && reinterpret_cast<uintptr_t>(view.data) % 4 == 0;
}

}  // namespace

template <Device D, class T>
void adapter_add(ExecContext& ctx, const AdapterAddArgs& args) {
  using N = cuda::Native<T>;
  const int64_t rows = args.y.rows(), cols = args.y.cols();
  if (rows == 0 || cols == 0) return;
  const AdapterRows<N> call{.y = cuda::native<T>(args.y),
                            .h = cuda::native<T>(args.h),
                            .b = cuda::native<T>(args.b),
                            .y_stride = args.y.row_stride,
                            .h_stride = args.h.row_stride,
                            .rows = rows,
                            .cols = cols,
                            .rank = static_cast<int>(args.h.cols()),
                            .scale = args.scale,
                            .gain = args.gain.defined() ? args.gain.ptr<float>() : nullptr,
                            .bias = args.bias.defined() ? cuda::native<T>(args.bias) : nullptr,
                            .kept = args.kept.defined() ? cuda::native<T>(args.kept) : nullptr,
                            .kept_stride = args.kept.row_stride};
  const bool aligned = cuda::rows_are_aligned<T>(args.y) &&
                       (!args.kept.defined() || cuda::rows_are_aligned<T>(args.kept)) && has_even_rows(args.h) &&
                       has_even_rows(args.b);
  const dim3 grid(static_cast<unsigned>((cols + kBlockColumns - 1) / kBlockColumns),
                  static_cast<unsigned>((rows + kBlockRows - 1) / kBlockRows));
  cuda::launch(cuda::LaunchConfig{grid, dim3(kWarpSize, kWarps), cuda::stream_of(ctx)},
               aligned ? kernel_for<N, true>(call.rank) : kernel_for<N, false>(call.rank), call);
}

template void adapter_add<Device::cuda, Bf16>(ExecContext&, const AdapterAddArgs&);
template void adapter_add<Device::cuda, Fp16>(ExecContext&, const AdapterAddArgs&);

}  // namespace gradmill
