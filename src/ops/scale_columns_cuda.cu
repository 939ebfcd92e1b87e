// SPDX-License-Identifier: Apache-2.0
// Column-wise scale and shift on CUDA. Memory-bound: 4 bytes per bf16 element (6 with a copy).
#include "cuda/engine.h"
#include "cuda/packed.cuh"
#include "cuda/row_tiles.cuh"
#include "ops/scale_columns.h"

namespace gradmill {
namespace {

using cuda::Packed;

constexpr int kRows = 4;  // per thread

template <class N>
struct ScaleRows {
  const N* x;
  int64_t x_stride;
  const float* addend;
  int64_t addend_stride;
  const float* gain;
  const N* bias;
  N* y;
  int64_t y_stride;
  N* copy;
  int64_t copy_stride;
};

template <class N, int kPack>
__global__ void __launch_bounds__(cuda::kTileThreads)
    scale_columns_kernel(cuda::RowTiles tiles, const ScaleRows<N> args) {
  const auto place = cuda::TilePlace::of<kRows>(tiles);
  if (place.pack >= tiles.packs) return;
  const int64_t column = place.pack * kPack;
  Packed<N, kPack> x[kRows];
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (place.has(k)) x[k] = Packed<N, kPack>::load(args.x + place.row(k) * args.x_stride + column);
  }
  float gain[kPack], bias[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    gain[i] = args.gain ? args.gain[column + i] : 1.0f;
    bias[i] = args.bias ? cuda::to_float(args.bias[column + i]) : 0.0f;
  }
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (!place.has(k)) continue;
    const float* addend = args.addend ? args.addend + place.row(k) * args.addend_stride + column : nullptr;
    const auto y =
        Packed<N, kPack>::of([&](int i) { return fmaf(gain[i], addend ? x[k][i] + addend[i] : x[k][i], bias[i]); });
    y.store(args.y + place.row(k) * args.y_stride + column);
    if (args.copy) y.store(args.copy + place.row(k) * args.copy_stride + column);
  }
}

}  // namespace

template <Device D, class T>
void scale_columns(ExecContext& ctx, const ScaleColumnsArgs& args) {
  using N = cuda::Native<T>;
  const auto pointer = []<class V>(const TensorView& view, V*) {
    return view.defined() ? static_cast<V*>(view.data) : nullptr;
  };
  const ScaleRows<N> rows{cuda::native<T>(args.x),
                          args.x.row_stride,
                          pointer(args.addend, static_cast<float*>(nullptr)),
                          args.addend.row_stride,
                          pointer(args.gain, static_cast<float*>(nullptr)),
                          pointer(args.bias, static_cast<N*>(nullptr)),
                          cuda::native<T>(args.y),
                          args.y.row_stride,
                          pointer(args.copy, static_cast<N*>(nullptr)),
                          args.copy.row_stride};
  constexpr int kPack = 16 / sizeof(N);
  const bool aligned = cuda::rows_are_aligned<T>(args.x) && cuda::rows_are_aligned<T>(args.y) &&
                       (!args.copy.defined() || cuda::rows_are_aligned<T>(args.copy));
  const int64_t packs = aligned ? args.x.cols() / kPack : args.x.cols();
  cuda::launch_tiles<kRows>(cuda::stream_of(ctx), args.x.rows(), packs,
                            aligned ? scale_columns_kernel<N, kPack> : scale_columns_kernel<N, 1>, rows);
}

template void scale_columns<Device::cuda, float>(ExecContext&, const ScaleColumnsArgs&);
template void scale_columns<Device::cuda, Bf16>(ExecContext&, const ScaleColumnsArgs&);
template void scale_columns<Device::cuda, Fp16>(ExecContext&, const ScaleColumnsArgs&);

}  // namespace gradmill
