// SPDX-License-Identifier: Apache-2.0
// Soft caps on the CPU.
#include "ops/soft_cap.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/soft_cap_cpu.cpp"
#include "hwy/foreach_target.h"

#include "cpu/simd-inl.h"
#include "cpu/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

// From 10 on the result is 1 in fp32; the library's version overflows at 44. NaN stays NaN.
HWY_INLINE Floats tanh(Floats x) {
  const Floats limited = hn::Max(hn::Min(x, splat(10.0f)), splat(-10.0f));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(FloatTag(), limited));
}

template <class T>
void forward_rows(const SoftCapArgs& args, int64_t begin, int64_t end) {
  const Floats cap = splat(args.cap), inverse = splat(1.0f / args.cap);
  for (int64_t r = begin; r < end; ++r) {
    const T* x = args.x.row<T>(r);
    T* y = args.y.row<T>(r);
    for_each_vector(args.x.cols(),
                    [&](int64_t, auto in, auto out) HWY_ATTR { out(hn::Mul(cap, tanh(hn::Mul(in(x), inverse))), y); });
  }
}

template <class T>
void backward_rows(const SoftCapGradArgs& args, int64_t begin, int64_t end) {
  const Floats one = splat(1.0f), inverse = splat(1.0f / args.cap);
  for (int64_t r = begin; r < end; ++r) {
    const T* x = args.x.row<T>(r);
    const T* dy = args.dy.row<T>(r);
    T* dx = args.dx.row<T>(r);
    for_each_vector(args.x.cols(), [&](int64_t, auto in, auto out) HWY_ATTR {
      const Floats t = tanh(hn::Mul(in(x), inverse));
      out(hn::Mul(in(dy), hn::NegMulAdd(t, t, one)), dx);
    });
  }
}

}  // namespace

void soft_cap_forward_rows(DType dtype, const SoftCapArgs& args, int64_t begin, int64_t end) {
  visit_float(dtype, [&]<class T>(T) { forward_rows<T>(args, begin, end); });
}
void soft_cap_backward_rows(DType dtype, const SoftCapGradArgs& args, int64_t begin, int64_t end) {
  visit_float(dtype, [&]<class T>(T) { backward_rows<T>(args, begin, end); });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/reduce.h"

namespace gradmill {
HWY_EXPORT(soft_cap_forward_rows);
HWY_EXPORT(soft_cap_backward_rows);

template <Device D, class T>
void soft_cap_forward(ExecContext& ctx, const SoftCapArgs& args) {
  const auto rows = HWY_DYNAMIC_DISPATCH(soft_cap_forward_rows);
  cpu::parallel_for(*ctx.pool, args.x.rows(), cpu::rows_per_task(args.x.cols()),
                    [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, begin, end); });
}

template <Device D, class T>
void soft_cap_backward(ExecContext& ctx, const SoftCapGradArgs& args) {
  const auto rows = HWY_DYNAMIC_DISPATCH(soft_cap_backward_rows);
  cpu::parallel_for(*ctx.pool, args.x.rows(), cpu::rows_per_task(args.x.cols()),
                    [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, begin, end); });
}

template void soft_cap_forward<Device::cpu, float>(ExecContext&, const SoftCapArgs&);
template void soft_cap_forward<Device::cpu, Bf16>(ExecContext&, const SoftCapArgs&);
template void soft_cap_forward<Device::cpu, Fp16>(ExecContext&, const SoftCapArgs&);
template void soft_cap_backward<Device::cpu, float>(ExecContext&, const SoftCapGradArgs&);
template void soft_cap_backward<Device::cpu, Bf16>(ExecContext&, const SoftCapGradArgs&);
template void soft_cap_backward<Device::cpu, Fp16>(ExecContext&, const SoftCapGradArgs&);

}  // namespace gradmill
#endif
