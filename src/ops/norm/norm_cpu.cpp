// SPDX-License-Identifier: Apache-2.0
// Norms on the CPU: one row at a time, with fp32 statistics.
#include "ops/norm/norm.h"
#include "ops/row_chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/norm/norm_cpu.cpp"
#include "hwy/foreach_target.h"

#include "cpu/simd-inl.h"
#include "cpu/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {

template <class T>
void add_rows(const T* x, const T* delta, T* sum, int64_t size) {
  for_each_vector(size, [&](int64_t, auto in, auto out) HWY_ATTR { out(hn::Add(in(x), in(delta)), sum); });
}

struct RowStats {
  float mean, rstd;
};

// Two passes over a row that stays in the cache: the textbook variance, without cancellation.
template <class T>
RowStats row_stats(NormKind kind, const T* row, int64_t size, float eps) {
  float mean = 0;
  if (kind == NormKind::layer) {
    Floats total = zeros();
    for_each_vector(size, [&](int64_t, auto in, auto) HWY_ATTR { total = hn::Add(total, in(row)); });
    mean = sum_lanes(total) / static_cast<float>(size);
  }
  Floats squares = zeros();
  const Floats center = splat(mean);
  const auto width = static_cast<int64_t>(lanes());
  int64_t i = 0;
  for (; i + width <= size; i += width) {
    const Floats centered = hn::Sub(load(row + i), center);
    squares = hn::MulAdd(centered, centered, squares);
  }
  float total = sum_lanes(squares);
  for (; i < size; ++i) {
    const float centered = static_cast<float>(row[i]) - mean;
    total += centered * centered;
  }
  return {mean, 1.0f / std::sqrt(total / static_cast<float>(size) + eps)};
}

template <class T>
void apply_row(const NormArgs& args, const T* row, RowStats stats, T* y) {
  const Floats mean = splat(stats.mean), rstd = splat(stats.rstd), offset = splat(args.weight_offset);
  const T* weight = args.weight.ptr<T>();
  const T* bias = args.bias.defined() ? args.bias.ptr<T>() : nullptr;
  for_each_vector(args.x.cols(), [&](int64_t, auto in, auto out) HWY_ATTR {
    const Floats normal = hn::Mul(hn::Sub(in(row), mean), rstd);
    const Floats gain = hn::Add(in(weight), offset);
    out(bias ? hn::MulAdd(normal, gain, in(bias)) : hn::Mul(normal, gain), y);
  });
}

template <class T>
void forward_rows(const NormArgs& args, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* row = args.x.row<T>(r);
    if (args.delta.defined()) {
      T* sum = args.sum.row<T>(r);
      add_rows(row, args.delta.row<T>(r), sum, args.x.cols());
      row = sum;
    }
    const RowStats stats = row_stats(args.kind, row, args.x.cols(), args.eps);
    if (args.mean.defined()) args.mean.ptr<float>()[r] = stats.mean;
    args.rstd.ptr<float>()[r] = stats.rstd;
    apply_row(args, row, stats, args.y.plain.row<T>(r));
  }
}

template <class T>
void rebuild_rows(const NormArgs& args, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const RowStats stats{args.mean.defined() ? args.mean.ptr<float>()[r] : 0.0f, args.rstd.ptr<float>()[r]};
    apply_row(args, args.x.row<T>(r), stats, args.y.plain.row<T>(r));
  }
}

// dx = rstd * (g - mean(g) - n * mean(g * n)), where n is the normalised row and g = dy * gain (RMSNorm: no mean(g)).
template <class T>
void backward_row(const NormGradArgs& args, int64_t r, float* dweight, float* dbias) {
  const int64_t size = args.sum.cols();
  const T* row = args.sum.row<T>(r);
  const T* dy = args.dy.row<T>(r);
  const T* weight = args.weight.ptr<T>();
  const T* residual = args.dresidual.defined() ? args.dresidual.row<T>(r) : nullptr;
  const bool centered = args.kind == NormKind::layer;
  const Floats mean = splat(centered ? args.mean.ptr<float>()[r] : 0.0f);
  const Floats rstd = splat(args.rstd.ptr<float>()[r]), offset = splat(args.weight_offset);

  Floats total_g = zeros(), total_gn = zeros();
  for_each_vector(size, [&](int64_t, auto in, auto out) HWY_ATTR {
    const Floats normal = hn::Mul(hn::Sub(in(row), mean), rstd);
    const Floats grad = in(dy);  // 0 in missing lanes, so these add nothing to the sums below
    const Floats g = hn::Mul(grad, hn::Add(in(weight), offset));
    total_g = hn::Add(total_g, g);
    total_gn = hn::MulAdd(g, normal, total_gn);
    out(hn::MulAdd(grad, normal, in(dweight)), dweight);
    if (dbias) out(hn::Add(grad, in(dbias)), dbias);
  });
  const float scale = 1.0f / static_cast<float>(size);
  const Floats mean_g = splat(centered ? sum_lanes(total_g) * scale : 0.0f);
  const Floats mean_gn = splat(sum_lanes(total_gn) * scale);
  T* dx = args.dx.row<T>(r);
  for_each_vector(size, [&](int64_t, auto in, auto out) HWY_ATTR {
    const Floats normal = hn::Mul(hn::Sub(in(row), mean), rstd);
    const Floats g = hn::Mul(in(dy), hn::Add(in(weight), offset));
    const Floats through = hn::Mul(rstd, hn::NegMulAdd(normal, mean_gn, hn::Sub(g, mean_g)));
    out(residual ? hn::Add(in(residual), through) : through, dx);
  });
}

template <class T>
void backward_chunk(const NormGradArgs& args, int64_t begin, int64_t end, float* dweight, float* dbias) {
  const auto bytes = static_cast<size_t>(args.sum.cols()) * sizeof(float);
  std::memset(dweight, 0, bytes);
  if (dbias) std::memset(dbias, 0, bytes);
  for (int64_t r = begin; r < end; ++r) backward_row<T>(args, r, dweight, dbias);
}

// One function per kernel and Highway target. The element type is a run-time value, because exports cannot be
// templates.
void norm_forward_rows(DType dtype, const NormArgs& args, int64_t begin, int64_t end) {
  visit_float(dtype, [&]<class T>(T) { forward_rows<T>(args, begin, end); });
}
void norm_rebuild_rows(DType dtype, const NormArgs& args, int64_t begin, int64_t end) {
  visit_float(dtype, [&]<class T>(T) { rebuild_rows<T>(args, begin, end); });
}
void norm_backward_chunk(DType dtype, const NormGradArgs& args, int64_t begin, int64_t end, float* dweight,
                         float* dbias) {
  visit_float(dtype, [&]<class T>(T) { backward_chunk<T>(args, begin, end, dweight, dbias); });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/reduce.h"

namespace gradmill {
HWY_EXPORT(norm_forward_rows);
HWY_EXPORT(norm_rebuild_rows);
HWY_EXPORT(norm_backward_chunk);

template <Device D, class T>
void norm_forward(ExecContext& ctx, const NormArgs& args) {
  const auto rows = HWY_DYNAMIC_DISPATCH(norm_forward_rows);
  cpu::parallel_for(*ctx.pool, args.x.rows(), cpu::rows_per_task(args.x.cols()),
                    [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, begin, end); });
}

template <Device D, class T>
void norm_rebuild(ExecContext& ctx, const NormArgs& args) {
  const auto rows = HWY_DYNAMIC_DISPATCH(norm_rebuild_rows);
  cpu::parallel_for(*ctx.pool, args.x.rows(), cpu::rows_per_task(args.x.cols()),
                    [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, begin, end); });
}

template <Device D, class T>
void norm_backward(ExecContext& ctx, const NormGradArgs& args, const TensorView& partials) {
  const auto chunk = HWY_DYNAMIC_DISPATCH(norm_backward_chunk);
  const RowChunks chunks = row_chunks(args.sum.rows());
  const int64_t size = args.sum.cols();
  float* dweight = partials.ptr<float>();
  float* dbias = args.dbias.defined() ? dweight + chunks.count * size : nullptr;
  cpu::parallel_for(*ctx.pool, args.sum.rows(), chunks.rows, [&](int64_t begin, int64_t end) {
    const int64_t offset = begin / chunks.rows * size;
    chunk(dtype_of<T>, args, begin, end, dweight + offset, dbias ? dbias + offset : nullptr);
  });
  if (args.dweight.defined()) {
    cpu::add_partials(*ctx.pool, dweight, chunks.count, size, args.dweight.ptr<float>(), args.weight_beta);
  }
  if (dbias) cpu::add_partials(*ctx.pool, dbias, chunks.count, size, args.dbias.ptr<float>(), args.bias_beta);
}

template void norm_forward<Device::cpu, float>(ExecContext&, const NormArgs&);
template void norm_forward<Device::cpu, Bf16>(ExecContext&, const NormArgs&);
template void norm_forward<Device::cpu, Fp16>(ExecContext&, const NormArgs&);
template void norm_rebuild<Device::cpu, float>(ExecContext&, const NormArgs&);
template void norm_rebuild<Device::cpu, Bf16>(ExecContext&, const NormArgs&);
template void norm_rebuild<Device::cpu, Fp16>(ExecContext&, const NormArgs&);
template void norm_backward<Device::cpu, float>(ExecContext&, const NormGradArgs&, const TensorView&);
template void norm_backward<Device::cpu, Bf16>(ExecContext&, const NormGradArgs&, const TensorView&);
template void norm_backward<Device::cpu, Fp16>(ExecContext&, const NormGradArgs&, const TensorView&);

}  // namespace gradmill
#endif
