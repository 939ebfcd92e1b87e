// SPDX-License-Identifier: Apache-2.0
// Squared norms of rows on the CPU.
#include "ops/row_norms.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/row_norms_cpu.cpp"
#include "hwy/foreach_target.h"

#include "cpu/simd-inl.h"
#include "cpu/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {

void row_norms_range(DType dtype, const RowNormsArgs& args, int64_t begin, int64_t end) {
  visit_float(dtype, [&]<class T>(T) {
    for (int64_t r = begin; r < end; ++r) {
      const T* x = args.x.row<T>(r);
      Floats sum = zeros();
      for_each_vector(args.x.cols(), [&](int64_t, auto in, auto) HWY_ATTR {
        const Floats value = in(x);
        sum = hn::MulAdd(value, value, sum);
      });
      args.squares.ptr<float>()[r] = sum_lanes(sum);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/reduce.h"

namespace gradmill {
HWY_EXPORT(row_norms_range);

template <Device D, class T>
void row_norms(ExecContext& ctx, const RowNormsArgs& args) {
  const auto rows = HWY_DYNAMIC_DISPATCH(row_norms_range);
  cpu::parallel_for(*ctx.pool, args.x.rows(), cpu::rows_per_task(args.x.cols()),
                    [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, begin, end); });
}

template void row_norms<Device::cpu, float>(ExecContext&, const RowNormsArgs&);
template void row_norms<Device::cpu, Bf16>(ExecContext&, const RowNormsArgs&);
template void row_norms<Device::cpu, Fp16>(ExecContext&, const RowNormsArgs&);

}  // namespace gradmill
#endif
