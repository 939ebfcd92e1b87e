// SPDX-License-Identifier: Apache-2.0
// Column sums on the CPU: partial sums per chunk of rows, then their sum in order.
#include "ops/bias_grad.h"
#include "ops/row_chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/bias_grad_cpu.cpp"
#include "hwy/foreach_target.h"

#include "cpu/simd-inl.h"
#include "cpu/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

// Four rows at a time, so that the sums are read and written once per four rows of dy.
template <class T>
void sum_rows(const TensorView& dy, int64_t begin, int64_t end, float* sums) {
  std::memset(sums, 0, static_cast<size_t>(dy.cols()) * sizeof(float));
  int64_t r = begin;
  for (; r + 4 <= end; r += 4) {
    const T* a = dy.row<T>(r);
    const T* b = dy.row<T>(r + 1);
    const T* c = dy.row<T>(r + 2);
    const T* d = dy.row<T>(r + 3);
    for_each_vector(dy.cols(), [&](int64_t, auto in, auto out) HWY_ATTR {
      out(hn::Add(in(sums), hn::Add(hn::Add(in(a), in(b)), hn::Add(in(c), in(d)))), sums);
    });
  }
  for (; r < end; ++r) {
    const T* row = dy.row<T>(r);
    for_each_vector(dy.cols(), [&](int64_t, auto in, auto out) HWY_ATTR { out(hn::Add(in(sums), in(row)), sums); });
  }
}

}  // namespace

void bias_grad_chunk(DType dtype, const TensorView& dy, int64_t begin, int64_t end, float* sums) {
  visit_float(dtype, [&]<class T>(T) { sum_rows<T>(dy, begin, end, sums); });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/reduce.h"

namespace gradmill {
HWY_EXPORT(bias_grad_chunk);

template <Device D, class T>
void bias_grad(ExecContext& ctx, const BiasGradArgs& args, const TensorView& partials) {
  const auto chunk = HWY_DYNAMIC_DISPATCH(bias_grad_chunk);
  const RowChunks chunks = row_chunks(args.dy.rows());
  cpu::parallel_for(*ctx.pool, args.dy.rows(), chunks.rows, [&](int64_t begin, int64_t end) {
    chunk(dtype_of<T>, args.dy, begin, end, partials.row<float>(begin / chunks.rows));
  });
  cpu::add_partials(*ctx.pool, partials.ptr<float>(), chunks.count, args.dy.cols(), args.dbias.ptr<float>(), args.beta);
}

template void bias_grad<Device::cpu, float>(ExecContext&, const BiasGradArgs&, const TensorView&);
template void bias_grad<Device::cpu, Bf16>(ExecContext&, const BiasGradArgs&, const TensorView&);
template void bias_grad<Device::cpu, Fp16>(ExecContext&, const BiasGradArgs&, const TensorView&);

}  // namespace gradmill
#endif
