// SPDX-License-Identifier: Apache-2.0
// MLP activations on CUDA: 16-byte packs, two rows a thread. Memory-bound: 6 bytes an element forward and 10 backward
// (gated, bf16) leave time for 40 and 70 instructions, of which two are exponential or reciprocal.
#include <type_traits>

#include "cuda/engine.h"
#include "cuda/packed.cuh"
#include "cuda/row_tiles.cuh"
#include "ops/activation.h"

namespace gradmill {
namespace {

using cuda::Packed;

constexpr int kRows = 2;  // of a thread

// fp32 results take the accurate functions. 16-bit results have 2^-11 to spare, the fast ones are good to 2^-20.
template <bool kExact>
struct Math {
  __device__ static float exp(float x) {
    if constexpr (kExact) {
      return expf(x);
    } else {
      return __expf(x);
    }
  }
  __device__ static float divide(float a, float b) {
    if constexpr (kExact) {
      return a / b;
    } else {
      return __fdividef(a, b);
    }
  }
  __device__ static float sigmoid(float x) { return divide(1.0f, 1.0f + exp(-x)); }
};

struct Point {
  float value, slope;
};

template <bool kExact>
struct Silu {
  __device__ static float value(float x) { return x * Math<kExact>::sigmoid(x); }
  __device__ static Point point(float x) {
    const float s = Math<kExact>::sigmoid(x);
    return {x * s, s * fmaf(x, 1.0f - s, 1.0f)};
  }
};

// 0.5 * x * (1 + tanh(u)) = x * sigmoid(2u),  u = √(2/π) * (x + 0.044715 x³).
template <bool kExact>
struct GeluTanh {
  static constexpr float kLinear = 1.5957691216057308f;  // 2√(2/π)
  static constexpr float kCubic = kLinear * 0.044715f;

  __device__ static float gate(float x, float square) {
    return Math<kExact>::sigmoid(__fmul_rn(x, fmaf(square, kCubic, kLinear)));
  }
  __device__ static float value(float x) { return x * gate(x, x * x); }
  __device__ static Point point(float x) {
    const float square = x * x, s = gate(x, square), value = x * s;
    return {value, fmaf(value * (1.0f - s), fmaf(square, 3 * kCubic, kLinear), s)};
  }
};

// x * Φ(x), Φ the normal distribution function 0.5 * (1 + erf(x / √2)).
template <bool kExact>
struct GeluErf {
  struct Normal {
    float cdf, bell;  // Φ(x), exp(-x²/2)
  };

  // Φ(-t) = exp(-t²/2) * R(t) for t >= 0, R a polynomial in s = (t - 3) / (t + 3) fitted on [0, 14.5], past which the
  // exponential is 0: of degree 9 as on the CPU (relative error 9e-9), or 7 (9e-7).
  __device__ static float ratio(float s) {
    if constexpr (kExact) {
      return polynomial(s, 5.31619444e-05f, 0.000115013645f, -0.000339012884f, -0.000983288162f, 0.00290438742f,
                        0.00613194238f, -0.0462132618f, 0.123225041f, -0.206402615f, 0.121513948f);
    } else {
      return polynomial(s, -0.000320438936f, -0.000857605948f, 0.00291084312f, 0.00608580653f, -0.0462144762f,
                        0.123230681f, -0.206402764f, 0.121513844f);
    }
  }
  // Coefficients from the highest power down.
  template <class... Floats>
  __device__ static float polynomial(float s, float highest, Floats... lower) {
    float sum = highest;
    ((sum = fmaf(sum, s, lower)), ...);
    return sum;
  }
  __device__ static float bell(float t) {
    const float half = 0.5f * t, square = __fmul_rn(half, t);
    const float rough = Math<kExact>::exp(-square);
    if constexpr (!kExact) return rough;
    // The rounding of t²/2 would be a relative error of the exponential: put it back.
    return fmaf(-rough, fmaf(half, t, -square), rough);
  }
  __device__ static Normal normal(float x) {
    const float t = fminf(fabsf(x), 14.5f), b = bell(t);
    const float tail = b * ratio(1.0f - Math<kExact>::divide(6.0f, t + 3.0f));
    return {x < 0 ? tail : 1.0f - tail, b};
  }
  __device__ static float value(float x) { return x * normal(x).cdf; }
  __device__ static Point point(float x) {
    const Normal n = normal(x);
    return {x * n.cdf, fmaf(x, n.bell * 0.3989422804014327f, n.cdf)};
  }
};

// Rows of `size` elements; of gated kinds, gate and up lie side by side in x and dx.
template <class N>
struct ActivationRows {
  const N* x;
  int64_t x_stride;
  N* y;
  int64_t y_stride;
  int64_t size;
};

template <class N>
struct ActivationGradRows {
  const N* x;
  int64_t x_stride;
  const N* dy;
  int64_t dy_stride;
  N* dx;
  int64_t dx_stride;
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

// A thread has read all of its elements before it writes one, and they are nobody else's: dx may be x.
template <class Act, bool kGated, class N, int kPack>
__global__ void __launch_bounds__(cuda::kTileThreads)
    activation_backward_kernel(cuda::RowTiles tiles, const ActivationGradRows<N> args) {
  const auto place = cuda::TilePlace::of<kRows>(tiles);
  if (place.pack >= tiles.packs) return;
  const int64_t column = place.pack * kPack;
  Packed<N, kPack> gate[kRows], up[kRows], dy[kRows];
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (!place.has(k)) continue;
    const N* x = args.x + place.row(k) * args.x_stride + column;
    gate[k] = Packed<N, kPack>::load_streaming(x);
    if constexpr (kGated) up[k] = Packed<N, kPack>::load_streaming(x + args.size);
    dy[k] = Packed<N, kPack>::load_streaming(args.dy + place.row(k) * args.dy_stride + column);
  }
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    if (!place.has(k)) continue;
    N* dx = args.dx + place.row(k) * args.dx_stride + column;
    float dup[kPack];
    const auto dgate = Packed<N, kPack>::of([&](int i) {
      const Point point = Act::point(gate[k][i]);
      dup[i] = dy[k][i] * point.value;
      return (kGated ? dy[k][i] * up[k][i] : dy[k][i]) * point.slope;
    });
    dgate.store(dx);
    if constexpr (kGated) Packed<N, kPack>::of([&](int i) { return dup[i]; }).store(dx + args.size);
  }
}

// Calls run<Act, kGated>().
template <class N, class Run>
void with_activation(Activation kind, Run&& run) {
  constexpr bool kExact = std::is_same_v<N, float>;
  switch (kind) {
    case Activation::gelu_erf:
      return run.template operator()<GeluErf<kExact>, false>();
    case Activation::gelu_tanh:
      return run.template operator()<GeluTanh<kExact>, false>();
    case Activation::swiglu:
      return run.template operator()<Silu<kExact>, true>();
    case Activation::geglu_erf:
      return run.template operator()<GeluErf<kExact>, true>();
    case Activation::geglu_tanh:
      return run.template operator()<GeluTanh<kExact>, true>();
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

template <Device D, class T>
void activation_backward(ExecContext& ctx, const ActivationGradArgs& args) {
  using N = cuda::Native<T>;
  constexpr int kPack = 16 / sizeof(N);
  const TensorView &x = args.x, &dy = args.dy, &dx = args.dx;
  const ActivationGradRows<N> rows{cuda::native<T>(x), x.row_stride,        cuda::native<T>(dy),
                                   dy.row_stride,      cuda::native<T>(dx), dx.row_stride,
                                   dy.cols()};
  with_activation<N>(args.kind, [&]<class Act, bool kGated>() {
    if (cuda::rows_are_aligned<T>(x) && cuda::rows_are_aligned<T>(dy) && cuda::rows_are_aligned<T>(dx)) {
      cuda::launch_tiles<kRows>(cuda::stream_of(ctx), dy.rows(), dy.cols() / kPack,
                                activation_backward_kernel<Act, kGated, N, kPack>, rows);
    } else {
      cuda::launch_tiles<kRows>(cuda::stream_of(ctx), dy.rows(), dy.cols(),
                                activation_backward_kernel<Act, kGated, N, 1>, rows);
    }
  });
}

template void activation_forward<Device::cuda, float>(ExecContext&, const ActivationArgs&);
template void activation_forward<Device::cuda, Bf16>(ExecContext&, const ActivationArgs&);
template void activation_forward<Device::cuda, Fp16>(ExecContext&, const ActivationArgs&);
template void activation_backward<Device::cuda, float>(ExecContext&, const ActivationGradArgs&);
template void activation_backward<Device::cuda, Bf16>(ExecContext&, const ActivationGradArgs&);
template void activation_backward<Device::cuda, Fp16>(ExecContext&, const ActivationGradArgs&);

}  // namespace gradmill
