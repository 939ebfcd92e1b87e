// SPDX-License-Identifier: Apache-2.0
// MLP activations on the CPU. Each is x times a distribution function, so that value and slope share one exponential.
#include "ops/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/activation_cpu.cpp"
#include "hwy/foreach_target.h"

#include "cpu/simd-inl.h"
#include "cpu/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

struct Point {
  Floats value, slope;
};

struct Silu {
  static HWY_INLINE Floats value(Floats x) { return hn::Mul(x, sigmoid(x)); }
  static HWY_INLINE Point point(Floats x) {
    const Floats s = sigmoid(x), one = splat(1.0f);
    return {hn::Mul(x, s), hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one))};
  }
};

// 0.5 * x * (1 + tanh(u)) = x * sigmoid(2u),  u = √(2/π) * (x + 0.044715 x³).
struct GeluTanh {
  static constexpr float kLinear = 1.5957691216057308f;  // 2√(2/π)
  static constexpr float kCubic = kLinear * 0.044715f;

  static HWY_INLINE Floats gate(Floats x, Floats square) {
    return sigmoid(hn::Mul(x, hn::MulAdd(square, splat(kCubic), splat(kLinear))));
  }
  static HWY_INLINE Floats value(Floats x) { return hn::Mul(x, gate(x, hn::Mul(x, x))); }
  static HWY_INLINE Point point(Floats x) {
    const Floats square = hn::Mul(x, x), s = gate(x, square);
    const Floats value = hn::Mul(x, s);
    const Floats inner = hn::MulAdd(square, splat(3 * kCubic), splat(kLinear));  // 2u'
    return {value, hn::MulAdd(hn::Mul(value, hn::Sub(splat(1.0f), s)), inner, s)};
  }
};

// x * Φ(x), where Φ is the normal distribution function 0.5 * (1 + erf(x / √2)).
struct GeluErf {
  struct Normal {
    Floats cdf, bell;  // Φ(x), exp(-x²/2)
  };

  // Φ(-t) = exp(-t²/2) * R(t) for t >= 0. R is smooth: a polynomial of degree 9 in (t - 3) / (t + 3), fitted with the
  // Remez exchange to a relative error of 9e-9 on [0, 14.5]; beyond that the exponential is 0. After rounding, Φ is
  // within 3 ulp down to x = -7 and within 6 ulp below, without cancellation on the negative side.
  static HWY_INLINE Normal normal(Floats x) {
    const Floats t = hn::Min(hn::Abs(x), splat(14.5f));
    const Floats s = hn::Sub(splat(1.0f), hn::Div(splat(6.0f), hn::Add(t, splat(3.0f))));
    Floats ratio = splat(5.31619444e-05f);
    for (float c : {0.000115013645f, -0.000339012884f, -0.000983288162f, 0.00290438742f, 0.00613194238f, -0.0462132618f,
                    0.123225041f, -0.206402615f, 0.121513948f}) {
      ratio = hn::MulAdd(ratio, s, splat(c));
    }
    // Rounding t²/2 would cause a relative error in the exponential, so compensate for it.
    const Floats half = hn::Mul(t, splat(0.5f)), square = hn::Mul(half, t);
    const Floats rounding = hn::MulSub(half, t, square);
    const Floats rough = exp(hn::Neg(square));
    const Floats bell = hn::NegMulAdd(rough, rounding, rough);
    const Floats tail = hn::Mul(bell, ratio);
    return {hn::IfThenElse(hn::Lt(x, zeros()), tail, hn::Sub(splat(1.0f), tail)), bell};
  }
  static HWY_INLINE Floats value(Floats x) { return hn::Mul(x, normal(x).cdf); }
  static HWY_INLINE Point point(Floats x) {
    const Normal n = normal(x);
    const Floats density = hn::Mul(n.bell, splat(0.3989422804014327f));
    return {hn::Mul(x, n.cdf), hn::MulAdd(x, density, n.cdf)};
  }
};

template <class Act, class T>
void forward_rows(const ActivationArgs& args, int64_t begin, int64_t end) {
  const int64_t size = args.y.plain.cols();
  const bool gated = is_gated(args.kind);
  for (int64_t r = begin; r < end; ++r) {
    const T* gate = args.x.row<T>(r);
    const T* up = gate + size;
    T* y = args.y.plain.row<T>(r);
    for_each_vector(size, [&](int64_t, auto in, auto out) HWY_ATTR {
      const Floats value = Act::value(in(gate));
      out(gated ? hn::Mul(value, in(up)) : value, y);
    });
  }
}

template <class Act, class T>
void backward_rows(const ActivationGradArgs& args, int64_t begin, int64_t end) {
  const int64_t size = args.dy.cols();
  const bool gated = is_gated(args.kind);
  for (int64_t r = begin; r < end; ++r) {
    const T* gate = args.x.row<T>(r);
    const T* up = gate + size;
    const T* dy = args.dy.row<T>(r);
    T* dgate = args.dx.plain.row<T>(r);
    T* dup = dgate + size;
    for_each_vector(size, [&](int64_t, auto in, auto out) HWY_ATTR {
      const Point p = Act::point(in(gate));
      const Floats grad = in(dy);
      const Floats dvalue = gated ? hn::Mul(grad, in(up)) : grad;
      out(hn::Mul(dvalue, p.slope), dgate);
      if (gated) out(hn::Mul(grad, p.value), dup);
    });
  }
}

template <class Run>
void visit_activation(Activation kind, Run&& run) {
  switch (kind) {
    case Activation::gelu_erf:
    case Activation::geglu_erf:
      return run(GeluErf{});
    case Activation::gelu_tanh:
    case Activation::geglu_tanh:
      return run(GeluTanh{});
    case Activation::swiglu:
      return run(Silu{});
  }
}

}  // namespace

void activation_forward_rows(DType dtype, const ActivationArgs& args, int64_t begin, int64_t end) {
  visit_activation(args.kind, [&]<class Act>(Act) {
    visit_float(dtype, [&]<class T>(T) { forward_rows<Act, T>(args, begin, end); });
  });
}
void activation_backward_rows(DType dtype, const ActivationGradArgs& args, int64_t begin, int64_t end) {
  visit_activation(args.kind, [&]<class Act>(Act) {
    visit_float(dtype, [&]<class T>(T) { backward_rows<Act, T>(args, begin, end); });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/reduce.h"

namespace gradmill {
HWY_EXPORT(activation_forward_rows);
HWY_EXPORT(activation_backward_rows);

template <Device D, class T>
void activation_forward(ExecContext& ctx, const ActivationArgs& args) {
  const auto rows = HWY_DYNAMIC_DISPATCH(activation_forward_rows);
  cpu::parallel_for(*ctx.pool, args.x.rows(), cpu::rows_per_task(args.x.cols()),
                    [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, begin, end); });
}

template <Device D, class T>
void activation_backward(ExecContext& ctx, const ActivationGradArgs& args, const TensorView&) {
  const auto rows = HWY_DYNAMIC_DISPATCH(activation_backward_rows);
  cpu::parallel_for(*ctx.pool, args.x.rows(), cpu::rows_per_task(args.x.cols()),
                    [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, begin, end); });
}

template void activation_forward<Device::cpu, float>(ExecContext&, const ActivationArgs&);
template void activation_forward<Device::cpu, Bf16>(ExecContext&, const ActivationArgs&);
template void activation_forward<Device::cpu, Fp16>(ExecContext&, const ActivationArgs&);
template void activation_backward<Device::cpu, float>(ExecContext&, const ActivationGradArgs&, const TensorView&);
template void activation_backward<Device::cpu, Bf16>(ExecContext&, const ActivationGradArgs&, const TensorView&);
template void activation_backward<Device::cpu, Fp16>(ExecContext&, const ActivationGradArgs&, const TensorView&);

}  // namespace gradmill
#endif
