// SPDX-License-Identifier: Apache-2.0
// The optimiser's update on the CPU: fixed blocks of the flat space, each cut where the group changes.
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

// Updates adjacent blocks of the same group together.
template <class T>
void update_block(const AdamWArgs& args, const StepScalars& scalars, int64_t begin, int64_t end) {
  const int8_t* groups = args.block_groups.ptr<int8_t>();
  while (begin < end) {
    const int8_t group = groups[begin / kSegmentPadding];
    int64_t stop = begin;
    while (stop < end && groups[stop / kSegmentPadding] == group) stop = (stop / kSegmentPadding + 1) * kSegmentPadding;
    stop = std::min(stop, end);
    update_range<T>(args, scalars, scalars.groups[group], begin, stop);
    begin = stop;
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

namespace {

// Computes the scalars that follow from the sum of squares.
void judge(StepScalars& s, double squares) {
  constexpr float kLargestScale = 0x1p24f;
  const double norm = std::sqrt(squares) / s.loss_scale, loss = s.loss_sum * s.inv_targets;
  s.grad_norm = static_cast<float>(norm);
  const bool numbers = std::isfinite(s.grad_norm) && std::isfinite(loss);
  s.finite = numbers && !(loss > s.loss_limit);
  s.updates += s.finite;
  // As in torch.nn.utils.clip_grad_norm_: with the small constant, and never larger than 1.
  const double clip = s.clip > 0 && s.finite ? std::min(1.0, s.clip / (norm + 1e-6)) : 1.0;
  s.grad_factor = static_cast<float>(clip / s.loss_scale);
  s.bias_correction1 = static_cast<float>(1 - std::pow(double(s.beta1), s.updates));
  s.bias_correction2 = static_cast<float>(1 - std::pow(double(s.beta2), s.updates));
  if (s.scale_growth_steps == 0) return;
  if (!numbers) {
    s.loss_scale = std::max(1.0f, s.loss_scale / 2);
    s.scale_streak = 0;
  } else if (s.finite && ++s.scale_streak >= s.scale_growth_steps) {
    s.loss_scale = std::min(kLargestScale, s.loss_scale * 2);
    s.scale_streak = 0;
  }
}

}  // namespace

template <Device D, class T>
void prepare_update(ExecContext& ctx, const TensorView& grads, const TensorView& partials) {
  const auto squares = HWY_DYNAMIC_DISPATCH(gradient_squares);
  partials.ptr<float>()[0] = 0;  // the sum over no elements
  cpu::parallel_for(*ctx.pool, grads.numel(), kNormChunk, [&](int64_t begin, int64_t end) {
    partials.ptr<float>()[begin / kNormChunk] = squares(grads.ptr<float>() + begin, end - begin);
  });
  double sum = 0;
  for (int64_t chunk = 0; chunk < partials.numel(); ++chunk) sum += double(partials.ptr<float>()[chunk]);

  judge(*ctx.scalars, sum);
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
