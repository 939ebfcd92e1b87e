// SPDX-License-Identifier: Apache-2.0
// Activation functions on CUDA: their values and slopes. value() and point().value have the same bits, because no
// expression is left that the compiler could contract in one and not in the other.
#pragma once

#include <type_traits>

#include "ops/activation.h"

namespace gradmill {
namespace {

// fp32 results use the accurate functions. 16-bit results only need 2^-11, and the fast functions are accurate to
// 2^-20; those of a single instruction flush denormals to 0.
template <bool kExact>
struct Math {
  static constexpr float kLog2E = 1.4426950408889634f;

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
  __device__ static float sigmoid(float x) {
    if constexpr (kExact) {
      return divide(1.0f, __fadd_rn(1.0f, exp(-x)));
    } else {
      return sigmoid_of_log2(__fmul_rn(x, -kLog2E));
    }
  }
  // Computes 1 / (1 + 2^x).
  __device__ static float sigmoid_of_log2(float x) {
    float power, result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
    return result;
  }
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
    using M = Math<kExact>;
    if constexpr (kExact) {
      return M::sigmoid(__fmul_rn(x, fmaf(square, kCubic, kLinear)));
    } else {
      return M::sigmoid_of_log2(__fmul_rn(x, fmaf(square, -kCubic * M::kLog2E, -kLinear * M::kLog2E)));
    }
  }
  __device__ static float value(float x) { return x * gate(x, x * x); }
  __device__ static Point point(float x) {
    const float square = x * x, s = gate(x, square), value = x * s;
    return {value, fmaf(fmaf(-value, s, value), fmaf(square, 3 * kCubic, kLinear), s)};
  }
};

// x * Φ(x), where Φ is the normal distribution function 0.5 * (1 + erf(x / √2)).
template <bool kExact>
struct GeluErf {
  struct Normal {
    float cdf, bell;  // Φ(x), exp(-x²/2)
  };

  // Φ(-t) = exp(-t²/2) * R(t) for t >= 0, where R is a polynomial in s = (t - 3) / (t + 3) fitted on [0, 14.5]; beyond
  // that the exponential is 0. Its degree is 9 as on the CPU (relative error 9e-9), or 7 (9e-7).
  __device__ static float ratio(float s) {
    if constexpr (kExact) {
      return polynomial(s, 5.31619444e-05f, 0.000115013645f, -0.000339012884f, -0.000983288162f, 0.00290438742f,
                        0.00613194238f, -0.0462132618f, 0.123225041f, -0.206402615f, 0.121513948f);
    } else {
      return polynomial(s, -0.000320438936f, -0.000857605948f, 0.00291084312f, 0.00608580653f, -0.0462144762f,
                        0.123230681f, -0.206402764f, 0.121513844f);
    }
  }
  // The coefficients, from the highest power down.
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
    // Rounding t²/2 would cause a relative error in the exponential, so compensate for it.
    return fmaf(-rough, fmaf(half, t, -square), rough);
  }
  __device__ static Normal normal(float x) {
    const float t = fminf(fabsf(x), 14.5f), b = bell(t);
    const float tail = __fmul_rn(b, ratio(1.0f - Math<kExact>::divide(6.0f, t + 3.0f)));
    return {x < 0 ? tail : 1.0f - tail, b};
  }
  __device__ static float value(float x) { return x * normal(x).cdf; }
  __device__ static Point point(float x) {
    const Normal n = normal(x);
    return {x * n.cdf, fmaf(x, n.bell * 0.3989422804014327f, n.cdf)};
  }
};

// Calls run<Act, kGated>() for the activation.
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
}  // namespace gradmill
