// SPDX-License-Identifier: Apache-2.0
// Soft caps on a GPU: element by element, memory-bound.
#include "cuda/engine.h"
#include "cuda/packed.cuh"
#include "cuda/row_tiles.cuh"
#include "ops/soft_cap.h"

namespace gradmill {
namespace {

using cuda::Packed;

constexpr int kRows = 2;  // per thread

template <class N>
struct Capped {
  const N* x;
  const N* dy;  // null in the forward
  N* out;
  int64_t x_stride, dy_stride, out_stride;
  float cap, inverse;
};

template <class N, int kPack>
__global__ void __launch_bounds__(cuda::kTileThreads) soft_cap_kernel(cuda::RowTiles tiles, const Capped<N> args) {
  const auto place = cuda::TilePlace::of<kRows>(tiles);
  if (place.pack >= tiles.packs) return;
  const int64_t column = place.pack * kPack;
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (!place.has(k)) continue;
    const auto x = Packed<N, kPack>::load(args.x + place.row(k) * args.x_stride + column);
    N* out = args.out + place.row(k) * args.out_stride + column;
    if (args.dy == nullptr) {
      Packed<N, kPack>::of([&](int i) { return args.cap * tanhf(x[i] * args.inverse); }).store(out);
    } else {
      const auto dy = Packed<N, kPack>::load(args.dy + place.row(k) * args.dy_stride + column);
      const auto slope = [&](int i) {
        const float t = tanhf(x[i] * args.inverse);
        return fmaf(-t, t, 1.0f);
      };
      Packed<N, kPack>::of([&](int i) { return dy[i] * slope(i); }).store(out);
    }
  }
}

template <class T>
void run(ExecContext& ctx, const TensorView& x, const TensorView& dy, const TensorView& out, float cap) {
  using N = cuda::Native<T>;
  constexpr int kPack = 16 / sizeof(N);
  const Capped<N> args{.x = cuda::native<T>(x),
                       .dy = dy.defined() ? cuda::native<T>(dy) : nullptr,
                       .out = cuda::native<T>(out),
                       .x_stride = x.row_stride,
                       .dy_stride = dy.row_stride,
                       .out_stride = out.row_stride,
                       .cap = cap,
                       .inverse = 1.0f / cap};
  const bool aligned = cuda::rows_are_aligned<T>(x) && cuda::rows_are_aligned<T>(out) &&
                       (!dy.defined() || cuda::rows_are_aligned<T>(dy));
  const int64_t packs = aligned ? x.cols() / kPack : x.cols();
  cuda::launch_tiles<kRows>(cuda::stream_of(ctx), x.rows(), packs,
                            aligned ? soft_cap_kernel<N, kPack> : soft_cap_kernel<N, 1>, args);
}

}  // namespace

template <Device D, class T>
void soft_cap_forward(ExecContext& ctx, const SoftCapArgs& args) {
  run<T>(ctx, args.x, {}, args.y, args.cap);
}

template <Device D, class T>
void soft_cap_backward(ExecContext& ctx, const SoftCapGradArgs& args) {
  run<T>(ctx, args.x, args.dy, args.dx, args.cap);
}

template void soft_cap_forward<Device::cuda, float>(ExecContext&, const SoftCapArgs&);
template void soft_cap_forward<Device::cuda, Bf16>(ExecContext&, const SoftCapArgs&);
template void soft_cap_forward<Device::cuda, Fp16>(ExecContext&, const SoftCapArgs&);
template void soft_cap_backward<Device::cuda, float>(ExecContext&, const SoftCapGradArgs&);
template void soft_cap_backward<Device::cuda, Bf16>(ExecContext&, const SoftCapGradArgs&);
template void soft_cap_backward<Device::cuda, Fp16>(ExecContext&, const SoftCapGradArgs&);

}  // namespace gradmill
