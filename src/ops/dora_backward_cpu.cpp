// SPDX-License-Identifier: Apache-2.0
// DoRA's backward on the CPU: partial sums per chunk of rows, then their sum in order.
#include "ops/dora_backward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/dora_backward_cpu.cpp"
#include "hwy/foreach_target.h"

#include "cpu/simd-inl.h"
#include "cpu/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void backward_chunk(const DoraGradArgs& args, int64_t begin, int64_t end, float* sums) {
  const float *gain = args.gain.ptr<float>(), *magnitude = args.magnitude.ptr<float>();
  const T* bias = args.bias.defined() ? args.bias.ptr<T>() : nullptr;
  std::memset(sums, 0, static_cast<size_t>(args.y.cols()) * sizeof(float));
  for (int64_t r = begin; r < end; ++r) {
    const T *y = args.y.row<T>(r), *dy = args.dy.row<T>(r);
    T* dz = args.dz.row<T>(r);
    for_each_vector(args.y.cols(), [&](int64_t, auto in, auto out) HWY_ATTR {
      const Floats grad = in(dy), scaled = bias ? hn::Sub(in(y), in(bias)) : in(y);
      out(hn::MulAdd(grad, scaled, in(sums)), sums);
      out(hn::Mul(grad, in(gain)), dz);
    });
  }
  for_each_vector(args.y.cols(), [&](int64_t, auto in, auto out) HWY_ATTR {
    const Floats by = in(magnitude);
    const auto zero = hn::Eq(by, zeros());
    out(hn::IfThenZeroElse(zero, hn::Div(in(sums), hn::IfThenElse(zero, splat(1), by))), sums);
  });
}

}  // namespace

void dora_backward_chunk(DType dtype, const DoraGradArgs& args, int64_t begin, int64_t end, float* sums) {
  visit_float(dtype, [&]<class T>(T) { backward_chunk<T>(args, begin, end, sums); });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/reduce.h"

namespace gradmill {
HWY_EXPORT(dora_backward_chunk);

template <Device D, class T>
void dora_backward(ExecContext& ctx, const DoraGradArgs& args, const TensorView& partials) {
  const auto chunk = HWY_DYNAMIC_DISPATCH(dora_backward_chunk);
  const RowChunks chunks = row_chunks(args.y.rows());
  cpu::parallel_for(*ctx.pool, args.y.rows(), chunks.rows, [&](int64_t begin, int64_t end) {
    chunk(dtype_of<T>, args, begin, end, partials.row<float>(begin / chunks.rows));
  });
  cpu::add_partials(*ctx.pool, partials.ptr<float>(), chunks.count, args.y.cols(), args.dmagnitude.ptr<float>(),
                    args.beta);
}

template void dora_backward<Device::cpu, float>(ExecContext&, const DoraGradArgs&, const TensorView&);
template void dora_backward<Device::cpu, Bf16>(ExecContext&, const DoraGradArgs&, const TensorView&);
template void dora_backward<Device::cpu, Fp16>(ExecContext&, const DoraGradArgs&, const TensorView&);

}  // namespace gradmill
#endif
