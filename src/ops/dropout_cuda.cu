// SPDX-License-Identifier: Apache-2.0
// Dropout on CUDA: one Philox call decides four columns, about 12 instructions an element of 4 bytes to move (bf16).
#include "cuda/engine.h"
#include "cuda/packed.cuh"
#include "cuda/philox.cuh"
#include "cuda/row_tiles.cuh"
#include "ops/dropout.h"

namespace gradmill {
namespace {

using cuda::Packed;

constexpr int kRows = 2;   // of a thread
constexpr int kWords = 4;  // of a Philox call

template <class N>
struct DropoutRows {
  const N* x;
  int64_t x_stride;
  N* y;
  int64_t y_stride;
  int64_t cols;
  uint32_t site;
};

struct Dropper {
  uint32_t threshold;
  float scale;

  __device__ explicit Dropper(const StepScalars& scalars)
      : threshold(cuda::drop_threshold(scalars.dropout)), scale(1.0f / (1.0f - scalars.dropout)) {}
  __device__ float operator()(float value, uint32_t word) const { return word < threshold ? 0.0f : value * scale; }
};

// The words of kPack columns from pack * kPack on.
template <int kPack>
__device__ void draw(const StepScalars& scalars, uint32_t site, int64_t row, int64_t pack, uint32_t (&words)[kPack]) {
#pragma unroll
  for (int j = 0; j < kPack / kWords; ++j) {
    const auto block = static_cast<uint32_t>(pack * (kPack / kWords) + j);
    const uint4 four = cuda::random_words(scalars, site, static_cast<uint32_t>(row), block);
    words[kWords * j] = four.x, words[kWords * j + 1] = four.y;
    words[kWords * j + 2] = four.z, words[kWords * j + 3] = four.w;
  }
}

template <class N, int kPack>
__global__ void __launch_bounds__(cuda::kTileThreads)
    dropout_kernel(cuda::RowTiles tiles, const DropoutRows<N> args, const StepScalars* scalars) {
  const auto place = cuda::TilePlace::of<kRows>(tiles);
  if (place.pack >= tiles.packs) return;
  const int64_t column = place.pack * kPack;
  const StepScalars now = *scalars;
  const Dropper dropped(now);
  Packed<N, kPack> x[kRows];
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (place.has(k)) x[k] = Packed<N, kPack>::load(args.x + place.row(k) * args.x_stride + column);
  }
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (!place.has(k)) continue;
    uint32_t words[kPack];
    draw(now, args.site, place.row(k), place.pack, words);
    const auto y = Packed<N, kPack>::of([&](int i) { return dropped(x[k][i], words[i]); });
    y.store(args.y + place.row(k) * args.y_stride + column);
  }
}

// Any width and alignment: four columns a thread, an element at a time.
template <class N>
__global__ void __launch_bounds__(cuda::kTileThreads)
    dropout_any_kernel(cuda::RowTiles tiles, const DropoutRows<N> args, const StepScalars* scalars) {
  const auto place = cuda::TilePlace::of<kRows>(tiles);
  if (place.pack >= tiles.packs) return;
  const int64_t column = place.pack * kWords;
  const StepScalars now = *scalars;
  const Dropper dropped(now);
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (!place.has(k)) continue;
    uint32_t words[kWords];
    draw(now, args.site, place.row(k), place.pack, words);
    const N* x = args.x + place.row(k) * args.x_stride + column;
    N* y = args.y + place.row(k) * args.y_stride + column;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if (column + i < args.cols) y[i] = cuda::from_float<N>(dropped(cuda::to_float(x[i]), words[i]));
    }
  }
}

}  // namespace

template <Device D, class T>
void dropout(ExecContext& ctx, const DropoutArgs& args) {
  using N = cuda::Native<T>;
  constexpr int kPack = 16 / sizeof(N);
  const TensorView &x = args.x, &y = args.y;
  const DropoutRows<N> rows{cuda::native<T>(x), x.row_stride, cuda::native<T>(y), y.row_stride, x.cols(), args.site};
  const StepScalars* scalars = ctx.scalars;
  if (cuda::rows_are_aligned<T>(x) && cuda::rows_are_aligned<T>(y)) {
    cuda::launch_tiles<kRows>(cuda::stream_of(ctx), x.rows(), x.cols() / kPack, dropout_kernel<N, kPack>, rows,
                              scalars);
  } else {
    cuda::launch_tiles<kRows>(cuda::stream_of(ctx), x.rows(), (x.cols() + kWords - 1) / kWords, dropout_any_kernel<N>,
                              rows, scalars);
  }
}

template void dropout<Device::cuda, float>(ExecContext&, const DropoutArgs&);
template void dropout<Device::cuda, Bf16>(ExecContext&, const DropoutArgs&);
template void dropout<Device::cuda, Fp16>(ExecContext&, const DropoutArgs&);

}  // namespace gradmill
