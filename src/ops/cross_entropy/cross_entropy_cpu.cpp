// SPDX-License-Identifier: Apache-2.0
// Cross-entropy on the CPU: three passes over a row. Only the first reads memory; the row stays in the cache.
#include "ops/cross_entropy/cross_entropy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cross_entropy/cross_entropy_cpu.cpp"
#include "hwy/foreach_target.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu/simd-inl.h"
#include "cpu/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

template <class T>
float row_max(const T* row, int64_t size) {
  const auto width = static_cast<int64_t>(lanes());
  Floats a = splat(-std::numeric_limits<float>::infinity()), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * width <= size; i += 4 * width) {
    a = hn::Max(a, load(row + i));
    b = hn::Max(b, load(row + i + width));
    c = hn::Max(c, load(row + i + 2 * width));
    d = hn::Max(d, load(row + i + 3 * width));
  }
  float largest = max_lanes(hn::Max(hn::Max(a, b), hn::Max(c, d)));
  for (; i < size; ++i) largest = HWY_MAX(largest, static_cast<float>(row[i]));
  return largest;
}

// Returns the sum of exp(row - max), or NaN if any element is NaN (exp() alone would return 0). With `keep`, an fp32
// row is replaced by its exponentials. Narrower types would round them, so their gradient pass computes them again.
template <class T>
float sum_exp(T* row, int64_t size, float max, bool keep) {
  const auto width = static_cast<int64_t>(lanes());
  const Floats shift = splat(max);
  const auto exponential = [&](Floats x) HWY_ATTR { return hn::IfThenElse(hn::IsNaN(x), x, exp(hn::Sub(x, shift))); };
  Floats sum = zeros();
  int64_t i = 0;
  for (; i + width <= size; i += width) {
    const Floats e = exponential(load(row + i));
    sum = hn::Add(sum, e);
    if constexpr (std::is_same_v<T, float>) {
      if (keep) store(e, row + i);
    }
  }
  if (i < size) {
    const auto count = static_cast<size_t>(size - i);
    const Floats e = exponential(load_partial(row + i, count));
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(FloatTag(), count), e));
    if constexpr (std::is_same_v<T, float>) {
      if (keep) store_partial(e, row + i, count);
    }
  }
  return sum_lanes(sum);
}

template <class T>
void write_gradient(T* row, int64_t size, float max, float factor) {
  const Floats shift = splat(max), scale = splat(factor);
  for_each_vector(size, [&](int64_t, auto in, auto out) HWY_ATTR {
    if constexpr (std::is_same_v<T, float>) {
      out(hn::Mul(in(row), scale), row);
    } else {
      out(hn::Mul(exp(hn::Sub(in(row), shift)), scale), row);
    }
  });
}

template <class T>
void loss_rows(const CrossEntropyArgs& args, float scale, int64_t begin, int64_t end) {
  const int64_t size = args.logits.cols();
  for (int64_t r = begin; r < end; ++r) {
    T* row = args.logits.row<T>(r);
    float& loss = args.losses.ptr<float>()[r];
    const int32_t target = args.targets.ptr<int32_t>()[r];
    const float weight = args.weights.defined() ? args.weights.ptr<float>()[r] : 1.0f;
    if (target == kIgnoredTarget || weight == 0) {
      loss = 0;
      if (args.write_grad) std::memset(static_cast<void*>(row), 0, static_cast<size_t>(size) * sizeof(T));
      continue;
    }
    assert(target >= 0 && target < size);
    const auto chosen = static_cast<float>(row[target]);
    const float max = row_max(row, size);
    const float sum = sum_exp(row, size, max, args.write_grad);
    loss = (std::log(sum) + (max - chosen)) * weight;
    if (!args.write_grad) continue;
    const float row_scale = scale * weight;
    write_gradient(row, size, max, row_scale / sum);
    row[target] = T((std::exp(chosen - max) / sum - 1) * row_scale);
  }
}

}  // namespace

void cross_entropy_rows(DType dtype, const CrossEntropyArgs& args, float scale, int64_t begin, int64_t end) {
  visit_float(dtype, [&]<class T>(T) { loss_rows<T>(args, scale, begin, end); });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/reduce.h"

namespace gradmill {
HWY_EXPORT(cross_entropy_rows);

template <Device D, class T>
void cross_entropy(ExecContext& ctx, const CrossEntropyArgs& args) {
  const auto rows = HWY_DYNAMIC_DISPATCH(cross_entropy_rows);
  const float scale = ctx.scalars->inv_targets * ctx.scalars->loss_scale;
  cpu::parallel_for(*ctx.pool, args.logits.rows(), cpu::rows_per_task(args.logits.cols()),
                    [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, scale, begin, end); });
}

// Adds row by row to the running sum, so that the split into micro-batches does not change it.
template <Device D, class T>
void add_loss_sum(ExecContext& ctx, const TensorView& losses) {
  double sum = ctx.scalars->loss_sum;
  for (int64_t r = 0; r < losses.numel(); ++r) sum += double(losses.ptr<float>()[r]);
  ctx.scalars->loss_sum = sum;
}

template void cross_entropy<Device::cpu, float>(ExecContext&, const CrossEntropyArgs&);
template void cross_entropy<Device::cpu, Bf16>(ExecContext&, const CrossEntropyArgs&);
template void cross_entropy<Device::cpu, Fp16>(ExecContext&, const CrossEntropyArgs&);
template void add_loss_sum<Device::cpu, float>(ExecContext&, const TensorView&);

}  // namespace gradmill
#endif
