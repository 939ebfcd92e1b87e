// SPDX-License-Identifier: Apache-2.0
// Conversions on CUDA. A pack has as many elements as 16 bytes of the narrower side.
#include <algorithm>
#include <type_traits>

#include "cuda/engine.h"
#include "cuda/packed.cuh"
#include "cuda/row_tiles.cuh"
#include "ops/convert.h"

namespace gradmill {
namespace {

using cuda::Packed;

constexpr int kRows = 2;  // per thread

template <class From, class To>
struct ConvertRows {
  const From* from;
  int64_t from_stride;
  To* to;
  int64_t to_stride;
  float beta;
};

template <class From, class To, int kPack>
__global__ void __launch_bounds__(cuda::kTileThreads)
    convert_kernel(cuda::RowTiles tiles, const ConvertRows<From, To> args) {
  const auto place = cuda::TilePlace::of<kRows>(tiles);
  if (place.pack >= tiles.packs) return;
  const int64_t column = place.pack * kPack;
  Packed<From, kPack> from[kRows];
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (place.has(k)) from[k] = Packed<From, kPack>::load(args.from + place.row(k) * args.from_stride + column);
  }
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (!place.has(k)) continue;
    To* to = args.to + place.row(k) * args.to_stride + column;
    if (args.beta == 0) {
      Packed<To, kPack>::of([&](int i) { return from[k][i]; }).store(to);
    } else {
      const auto old = Packed<To, kPack>::load(to);
      Packed<To, kPack>::of([&](int i) { return fmaf(args.beta, old[i], from[k][i]); }).store(to);
    }
  }
}

template <class From, class To>
void convert_between(ExecContext& ctx, const ConvertArgs& args) {
  using FromNative = cuda::Native<From>;
  using ToNative = cuda::Native<To>;
  constexpr int kPack = 16 / std::min(sizeof(From), sizeof(To));
  const ConvertRows<FromNative, ToNative> rows{cuda::native<From>(args.from), args.from.row_stride,
                                               cuda::native<To>(args.to), args.to.row_stride, args.beta};
  const int64_t num_rows = args.from.rows(), cols = args.from.cols();
  if (cuda::rows_are_aligned<From, kPack>(args.from) && cuda::rows_are_aligned<To, kPack>(args.to)) {
    cuda::launch_tiles<kRows>(cuda::stream_of(ctx), num_rows, cols / kPack, convert_kernel<FromNative, ToNative, kPack>,
                              rows);
  } else {
    cuda::launch_tiles<kRows>(cuda::stream_of(ctx), num_rows, cols, convert_kernel<FromNative, ToNative, 1>, rows);
  }
}

}  // namespace

template <Device D, class T>
void convert(ExecContext& ctx, const ConvertArgs& args) {
  if (args.from.dtype == DType::fp32) return convert_between<float, T>(ctx, args);
  convert_between<T, float>(ctx, args);
}

template void convert<Device::cuda, float>(ExecContext&, const ConvertArgs&);
template void convert<Device::cuda, Bf16>(ExecContext&, const ConvertArgs&);
template void convert<Device::cuda, Fp16>(ExecContext&, const ConvertArgs&);

}  // namespace gradmill
