// SPDX-License-Identifier: Apache-2.0
// Dropout on CUDA: one Philox call decides eight columns: about 10 instructions per element, which moves 4 bytes
// (bf16).
#include "cuda/engine.h"
#include "cuda/packed.cuh"
#include "cuda/philox.cuh"
#include "cuda/row_tiles.cuh"
#include "ops/dropout.h"

namespace gradmill {
namespace {

using cuda::Packed;

constexpr int kRows = 4;     // per thread, which computes the rule (about 40 instructions) once for them
constexpr int kColumns = 8;  // per thread, and per Philox call

template <class N>
struct DropoutRows {
  const N* x;
  int64_t x_stride;
  N* y;
  int64_t y_stride;
  int64_t cols;
  uint32_t site;
  float probability;
  const int32_t* tokens;  // may be null

  __device__ uint32_t token(int64_t row) const { return static_cast<uint32_t>(tokens != nullptr ? tokens[row] : row); }
};

template <class N, bool kAdd>
__global__ void __launch_bounds__(cuda::kTileThreads)
    dropout_kernel(cuda::RowTiles tiles, const DropoutRows<N> args, const StepScalars* scalars) {
  const auto place = cuda::TilePlace::of<kRows>(tiles);
  if (place.pack >= tiles.packs) return;
  const int64_t column = place.pack * kColumns;
  const cuda::DropoutRule rule(*scalars, args.site, args.probability);
  Packed<N, kColumns> x[kRows];
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (place.has(k)) x[k] = Packed<N, kColumns>::load(args.x + place.row(k) * args.x_stride + column);
  }
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (!place.has(k)) continue;
    const uint4 words = rule.words(args.token(place.row(k)), static_cast<uint32_t>(place.pack));
    N* to = args.y + place.row(k) * args.y_stride + column;
    Packed<N, kColumns> old{};
    if constexpr (kAdd) old = Packed<N, kColumns>::load(to);
    const auto y = Packed<N, kColumns>::of([&](int i) {
      const float kept = rule.keeps(words, i) ? x[k][i] * rule.scale : 0.0f;
      return kAdd ? kept + old[i] : kept;
    });
    y.store(to);
  }
}

// For any width and alignment, one element at a time.
template <class N, bool kAdd>
__global__ void __launch_bounds__(cuda::kTileThreads)
    dropout_any_kernel(cuda::RowTiles tiles, const DropoutRows<N> args, const StepScalars* scalars) {
  const auto place = cuda::TilePlace::of<kRows>(tiles);
  if (place.pack >= tiles.packs) return;
  const int64_t column = place.pack * kColumns;
  const cuda::DropoutRule rule(*scalars, args.site, args.probability);
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (!place.has(k)) continue;
    const uint4 words = rule.words(args.token(place.row(k)), static_cast<uint32_t>(place.pack));
    const N* x = args.x + place.row(k) * args.x_stride + column;
    N* y = args.y + place.row(k) * args.y_stride + column;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (column + i >= args.cols) break;
      const float kept = rule.keeps(words, i) ? cuda::to_float(x[i]) * rule.scale : 0.0f;
      y[i] = cuda::from_float<N>(kAdd ? kept + cuda::to_float(y[i]) : kept);
    }
  }
}

}  // namespace

template <Device D, class T>
void dropout(ExecContext& ctx, const DropoutArgs& args) {
  using N = cuda::Native<T>;
  const TensorView &x = args.x, &y = args.y;
  const DropoutRows<N> rows{.x = cuda::native<T>(x),
                            .x_stride = x.row_stride,
                            .y = cuda::native<T>(y),
                            .y_stride = y.row_stride,
                            .cols = x.cols(),
                            .site = args.site,
                            .probability = args.probability,
                            .tokens = args.tokens.defined() ? args.tokens.ptr<int32_t>() : nullptr};
  const StepScalars* scalars = ctx.scalars;
  const bool vectors = cuda::rows_are_aligned<T>(x) && cuda::rows_are_aligned<T>(y) && x.cols() % kColumns == 0;
  const auto kernel = args.add ? (vectors ? dropout_kernel<N, true> : dropout_any_kernel<N, true>)
                               : (vectors ? dropout_kernel<N, false> : dropout_any_kernel<N, false>);
  cuda::launch_tiles<kRows>(cuda::stream_of(ctx), x.rows(), (x.cols() + kColumns - 1) / kColumns, kernel, rows,
                            scalars);
}

template void dropout<Device::cuda, float>(ExecContext&, const DropoutArgs&);
template void dropout<Device::cuda, Bf16>(ExecContext&, const DropoutArgs&);
template void dropout<Device::cuda, Fp16>(ExecContext&, const DropoutArgs&);

}  // namespace gradmill
