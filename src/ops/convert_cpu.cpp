// SPDX-License-Identifier: Apache-2.0
// Conversions on the CPU.
#include "ops/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/convert_cpu.cpp"
#include "hwy/foreach_target.h"

#include "cpu/simd-inl.h"
#include "cpu/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {

template <class From, class To>
void convert_rows(const ConvertArgs& args, int64_t begin, int64_t end) {
  const Floats beta = splat(args.beta);
  for (int64_t r = begin; r < end; ++r) {
    const From* from = args.from.row<From>(r);
    To* to = args.to.row<To>(r);
    for_each_vector(args.from.cols(), [&](int64_t, auto in, auto out) HWY_ATTR {
      out(args.beta == 0 ? in(from) : hn::MulAdd(beta, in(to), in(from)), to);
    });
  }
}

void convert_any(const ConvertArgs& args, int64_t begin, int64_t end) {
  if (args.from.dtype == DType::fp32) {
    visit_float(args.to.dtype, [&]<class To>(To) { convert_rows<float, To>(args, begin, end); });
  } else {
    visit_float(args.from.dtype, [&]<class From>(From) { convert_rows<From, float>(args, begin, end); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/reduce.h"

namespace gradmill {
HWY_EXPORT(convert_any);

template <Device D, class T>
void convert(ExecContext& ctx, const ConvertArgs& args) {
  const auto rows = HWY_DYNAMIC_DISPATCH(convert_any);
  cpu::parallel_for(*ctx.pool, args.from.rows(), cpu::rows_per_task(args.from.cols()),
                    [&](int64_t begin, int64_t end) { rows(args, begin, end); });
}

template void convert<Device::cpu, float>(ExecContext&, const ConvertArgs&);
template void convert<Device::cpu, Bf16>(ExecContext&, const ConvertArgs&);
template void convert<Device::cpu, Fp16>(ExecContext&, const ConvertArgs&);

}  // namespace gradmill
#endif
