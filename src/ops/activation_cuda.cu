// SPDX-License-Identifier: Apache-2.0
// Forward of MLP activations on CUDA: 16-byte packs, two rows per thread. Memory-bound: 6 bytes per element (gated,
// bf16) leave time for 40 instructions, two of which are exponential or reciprocal.
#include "cuda/engine.h"
#include "cuda/packed.cuh"
#include "cuda/row_tiles.cuh"
#include "ops/activation_math.cuh"

namespace gradmill {
namespace {

using cuda::Packed;

constexpr int kRows = 2;  // per thread

// Rows of `size` elements. For gated kinds, gate and up are side by side in x and dx.
template <class N>
struct ActivationRows {
  const N* x;
  int64_t x_stride;
  N* y;
  int64_t y_stride;
  int64_t size;
};

template <class Act, bool kGated, class N, int kPack>
__global__ void __launch_bounds__(cuda::kTileThreads)
    activation_forward_kernel(cuda::RowTiles tiles, const ActivationRows<N> args) {
  const auto place = cuda::TilePlace::of<kRows>(tiles);
  if (place.pack >= tiles.packs) return;
  const int64_t column = place.pack * kPack;
  Packed<N, kPack> gate[kRows], up[kRows];
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (!place.has(k)) continue;
    const N* x = args.x + place.row(k) * args.x_stride + column;
    gate[k] = Packed<N, kPack>::load_streaming(x);
    if constexpr (kGated) up[k] = Packed<N, kPack>::load_streaming(x + args.size);
  }
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (!place.has(k)) continue;
    const auto y = Packed<N, kPack>::of([&](int i) {
      const float value = Act::value(gate[k][i]);
      return kGated ? value * up[k][i] : value;
    });
    y.store(args.y + place.row(k) * args.y_stride + column);
  }
}

}  // namespace

template <Device D, class T>
void activation_forward(ExecContext& ctx, const ActivationArgs& args) {
  using N = cuda::Native<T>;
  constexpr int kPack = 16 / sizeof(N);
  const TensorView& y = args.y.plain;
  const ActivationRows<N> rows{cuda::native<T>(args.x), args.x.row_stride, cuda::native<T>(y), y.row_stride, y.cols()};
  with_activation<N>(args.kind, [&]<class Act, bool kGated>() {
    if (cuda::rows_are_aligned<T>(args.x) && cuda::rows_are_aligned<T>(y)) {
      cuda::launch_tiles<kRows>(cuda::stream_of(ctx), y.rows(), y.cols() / kPack,
                                activation_forward_kernel<Act, kGated, N, kPack>, rows);
    } else {
      cuda::launch_tiles<kRows>(cuda::stream_of(ctx), y.rows(), y.cols(), activation_forward_kernel<Act, kGated, N, 1>,
                                rows);
    }
  });
}

template void activation_forward<Device::cuda, float>(ExecContext&, const ActivationArgs&);
template void activation_forward<Device::cuda, Bf16>(ExecContext&, const ActivationArgs&);
template void activation_forward<Device::cuda, Fp16>(ExecContext&, const ActivationArgs&);

}  // namespace gradmill
