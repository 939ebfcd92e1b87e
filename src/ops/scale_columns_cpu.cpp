// SPDX-License-Identifier: Apache-2.0
// Column-wise scale and shift on the CPU.
#include "ops/scale_columns.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/scale_columns_cpu.cpp"
#include "hwy/foreach_target.h"

#include "cpu/simd-inl.h"
#include "cpu/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void scale_rows(const ScaleColumnsArgs& args, int64_t begin, int64_t end) {
  const float* gain = args.gain.defined() ? args.gain.ptr<float>() : nullptr;
  const T* bias = args.bias.defined() ? args.bias.ptr<T>() : nullptr;
  for (int64_t r = begin; r < end; ++r) {
    const T* x = args.x.row<T>(r);
    const float* addend = args.addend.defined() ? args.addend.row<float>(r) : nullptr;
    T* y = args.y.row<T>(r);
    T* copy = args.copy.defined() ? args.copy.row<T>(r) : nullptr;
    for_each_vector(args.x.cols(), [&](int64_t, auto in, auto out) HWY_ATTR {
      Floats value = addend ? hn::Add(in(x), in(addend)) : in(x);
      if (gain) value = hn::Mul(value, in(gain));
      if (bias) value = hn::Add(value, in(bias));
      out(value, y);
      if (copy) out(value, copy);
    });
  }
}

}  // namespace

void scale_columns_rows(DType dtype, const ScaleColumnsArgs& args, int64_t begin, int64_t end) {
  visit_float(dtype, [&]<class T>(T) { scale_rows<T>(args, begin, end); });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/reduce.h"

namespace gradmill {
HWY_EXPORT(scale_columns_rows);

template <Device D, class T>
void scale_columns(ExecContext& ctx, const ScaleColumnsArgs& args) {
  const auto rows = HWY_DYNAMIC_DISPATCH(scale_columns_rows);
  cpu::parallel_for(*ctx.pool, args.x.rows(), cpu::rows_per_task(args.x.cols()),
                    [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, begin, end); });
}

template void scale_columns<Device::cpu, float>(ExecContext&, const ScaleColumnsArgs&);
template void scale_columns<Device::cpu, Bf16>(ExecContext&, const ScaleColumnsArgs&);
template void scale_columns<Device::cpu, Fp16>(ExecContext&, const ScaleColumnsArgs&);

}  // namespace gradmill
#endif
