// SPDX-License-Identifier: Apache-2.0
// The optimiser's update on the CPU: fixed blocks of the flat space, each cut at the borders of its parameters.
#include "ops/adamw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adamw_cpu.cpp"
#include "hwy/foreach_target.h"

#include <algorithm>
#include <cmath>

#include "cpu/simd-inl.h"
#include "cpu/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

// In PyTorch's order: decay, moments, then the step.
template <class T>
void update_range(const AdamWArgs& args, const StepScalars& s, const ParamGroup& group, int64_t begin, int64_t end) {
  const double lr = double(s.lr) * group.lr_scale;
  const Floats shrink = splat(static_cast<float>(1 - lr * group.weight_decay));
  const Floats step = splat(static_cast<float>(lr / s.bias_correction1));
  const Floats unbias = splat(static_cast<float>(1 / std::sqrt(double(s.bias_correction2))));
  const Floats beta1 = splat(s.beta1), beta2 = splat(s.beta2), rest1 = splat(1 - s.beta1), rest2 = splat(1 - s.beta2);
  const Floats factor = splat(s.grad_factor), eps = splat(s.eps);
  float* w = args.master.ptr<float>() + begin;
  const float* grads = args.grads.ptr<float>() + begin;
  float* m = args.m.ptr<float>() + begin;
  float* v = args.v.ptr<float>() + begin;
  T* compute = args.compute.defined() ? args.compute.ptr<T>() + begin : nullptr;
  for_each_vector(end - begin, [&](int64_t, auto in, auto out) HWY_ATTR {
    const Floats g = hn::Mul(in(grads), factor);
    const Floats first = hn::MulAdd(beta1, in(m), hn::Mul(rest1, g));
    const Floats second = hn::MulAdd(beta2, in(v), hn::Mul(hn::Mul(rest2, g), g));
    const Floats scale = hn::MulAdd(hn::Sqrt(second), unbias, eps);
    const Floats next = hn::NegMulAdd(step, hn::Div(first, scale), hn::Mul(in(w), shrink));
    out(first, m);
    out(second, v);
    out(next, w);
    if (compute) out(next, compute);
  });
}

template <class T>
void update_block(const AdamWArgs& args, const StepScalars& scalars, int64_t begin, int64_t end) {
  auto segment = std::partition_point(args.segments.begin(), args.segments.end(),
                                      [&](const Segment& s) { return s.begin + s.size <= begin; });
  for (; segment != args.segments.end() && segment->begin < end; ++segment) {
    update_range<T>(args, scalars, args.groups[static_cast<size_t>(segment->group)], std::max(begin, segment->begin),
                    std::min(end, segment->begin + segment->size));
  }
}

}  // namespace

float gradient_squares(const float* values, int64_t size) {
  const auto width = static_cast<int64_t>(lanes());
  Floats a = zeros(), b = zeros(), c = zeros(), d = zeros();
  const auto add = [](const float* from, Floats sum) HWY_ATTR {
    const Floats x = load(from);
    return hn::MulAdd(x, x, sum);
  };
  int64_t i = 0;
  for (; i + 4 * width <= size; i += 4 * width) {
    a = add(values + i, a);
    b = add(values + i + width, b);
    c = add(values + i + 2 * width, c);
    d = add(values + i + 3 * width, d);
  }
  float sum = sum_lanes(hn::Add(hn::Add(a, b), hn::Add(c, d)));
  for (; i < size; ++i) sum += values[i] * values[i];
  return sum;
}

void adamw_block(DType dtype, const AdamWArgs& args, const StepScalars& scalars, int64_t begin, int64_t end) {
  visit_float(dtype, [&]<class T>(T) { update_block<T>(args, scalars, begin, end); });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace gradmill {
HWY_EXPORT(gradient_squares);
HWY_EXPORT(adamw_block);

template <Device D, class T>
void prepare_update(ExecContext& ctx, const TensorView& grads, const TensorView& partials) {
  const auto squares = HWY_DYNAMIC_DISPATCH(gradient_squares);
  cpu::parallel_for(*ctx.pool, grads.numel(), kNormChunk, [&](int64_t begin, int64_t end) {
    partials.ptr<float>()[begin / kNormChunk] = squares(grads.ptr<float>() + begin, end - begin);
  });
  double sum = 0;
  for (int64_t chunk = 0; chunk < partials.numel(); ++chunk) sum += double(partials.ptr<float>()[chunk]);

  StepScalars& s = *ctx.scalars;
  const double norm = std::sqrt(sum) / s.loss_scale;
  s.grad_norm = static_cast<float>(norm);
  s.finite = std::isfinite(s.grad_norm) && std::isfinite(s.loss_sum);
  s.updates += s.finite;
  // torch.nn.utils.clip_grad_norm_: the small constant, and never larger than 1.
  const double clip = s.clip > 0 && s.finite ? std::min(1.0, s.clip / (norm + 1e-6)) : 1.0;
  s.grad_factor = static_cast<float>(clip / s.loss_scale);
  s.bias_correction1 = static_cast<float>(1 - std::pow(double(s.beta1), s.updates));
  s.bias_correction2 = static_cast<float>(1 - std::pow(double(s.beta2), s.updates));
}

template <Device D, class T>
void adamw(ExecContext& ctx, const AdamWArgs& args) {
  constexpr int64_t kBlock = 16384;
  if (!ctx.scalars->finite) return;
  const auto block = HWY_DYNAMIC_DISPATCH(adamw_block);
  cpu::parallel_for(*ctx.pool, args.end - args.begin, kBlock, [&](int64_t begin, int64_t end) {
    block(dtype_of<T>, args, *ctx.scalars, args.begin + begin, args.begin + end);
  });
}

template void prepare_update<Device::cpu, float>(ExecContext&, const TensorView&, const TensorView&);
template void adamw<Device::cpu, float>(ExecContext&, const AdamWArgs&);
template void adamw<Device::cpu, Bf16>(ExecContext&, const AdamWArgs&);
template void adamw<Device::cpu, Fp16>(ExecContext&, const AdamWArgs&);

}  // namespace gradmill
#endif
