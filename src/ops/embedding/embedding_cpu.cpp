// SPDX-License-Identifier: Apache-2.0
// Table lookup on the CPU. The gradient sorts rows by entry, so that every entry has a single writer.
#include "ops/embedding/embedding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/embedding/embedding_cpu.cpp"
#include "hwy/foreach_target.h"

#include "cpu/simd-inl.h"
#include "cpu/thread_pool.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

// Without indices, returns the table's first row.
template <class T>
const T* entry_of(const TensorView& table, const TensorView& indices, int64_t row) {
  const int64_t index = indices.defined() ? indices.ptr<int32_t>()[row] : 0;
  assert(index >= 0 && index < table.rows());
  return table.row<T>(index);
}

template <class T>
void look_up_rows(const EmbeddingArgs& args, int64_t begin, int64_t end) {
  const Floats scale = splat(args.scale);
  for (int64_t r = begin; r < end; ++r) {
    const T* entry = entry_of<T>(args.table, args.indices, r);
    T* y = args.y.row<T>(r);
    if (args.type_table.defined()) {
      const bool positions = args.position_table.defined();
      const T* position = positions ? entry_of<T>(args.position_table, args.position_indices, r) : nullptr;
      const T* type = entry_of<T>(args.type_table, args.type_indices, r);
      for_each_vector(args.y.cols(), [&](int64_t, auto in, auto out) HWY_ATTR {
        const Floats rest = positions ? hn::Add(in(position), in(type)) : in(type);
        out(hn::MulAdd(scale, in(entry), rest), y);
      });
    } else if (args.position_table.defined()) {
      const T* position = entry_of<T>(args.position_table, args.position_indices, r);
      for_each_vector(args.y.cols(),
                      [&](int64_t, auto in, auto out) HWY_ATTR { out(hn::MulAdd(scale, in(entry), in(position)), y); });
    } else {
      for_each_vector(args.y.cols(), [&](int64_t, auto in, auto out) HWY_ATTR { out(hn::Mul(scale, in(entry)), y); });
    }
  }
}

// out = scale * dy + beta * out.
template <class T>
void add_row(const T* dy, float scale, float beta, int64_t size, float* out) {
  const Floats factor = splat(scale), keep = splat(beta);
  for_each_vector(size, [&](int64_t, auto in, auto write) HWY_ATTR {
    const Floats old = beta == 0 ? zeros() : hn::Mul(keep, in(out));
    write(hn::MulAdd(factor, in(dy), old), out);
  });
}

void scale_unused(float beta, int64_t size, float* out) {
  if (beta == 0) std::memset(out, 0, static_cast<size_t>(size) * sizeof(float));
  if (beta == 0 || beta == 1) return;
  for (int64_t i = 0; i < size; ++i) out[i] *= beta;
}

// Adds the rows one by one to the old gradient times beta, so that a step in micro-batches has the bits of an undivided
// one.
template <class T>
void sum_entries(const EmbeddingGradArgs& args, const int32_t* order, const int32_t* offsets, int64_t begin,
                 int64_t end) {
  const int64_t size = args.dy.cols();
  for (int64_t entry = begin; entry < end; ++entry) {
    float* out = args.dtable.row<float>(entry);
    float beta = args.beta;
    if (offsets[entry] == offsets[entry + 1]) scale_unused(beta, size, out);
    for (int32_t i = offsets[entry]; i < offsets[entry + 1]; ++i) {
      add_row(args.dy.row<T>(order[i]), args.scale, beta, size, out);
      beta = 1;
    }
  }
}

}  // namespace

void embedding_forward_rows(DType dtype, const EmbeddingArgs& args, int64_t begin, int64_t end) {
  visit_float(dtype, [&]<class T>(T) { look_up_rows<T>(args, begin, end); });
}
void embedding_backward_entries(DType dtype, const EmbeddingGradArgs& args, const int32_t* order,
                                const int32_t* offsets, int64_t begin, int64_t end) {
  visit_float(dtype, [&]<class T>(T) { sum_entries<T>(args, order, offsets, begin, end); });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <numeric>

#include "cpu/reduce.h"

namespace gradmill {
namespace {

// A counting sort. Filling from the end moves each entry's offset from its end to its start.
void group_rows(std::span<const int32_t> indices, std::span<int32_t> order, std::span<int32_t> offsets) {
  std::fill(offsets.begin(), offsets.end(), 0);
  for (int32_t index : indices) ++offsets[static_cast<size_t>(index)];
  std::inclusive_scan(offsets.begin(), offsets.end(), offsets.begin());
  for (size_t row = indices.size(); row-- > 0;) {
    int32_t& offset = offsets[static_cast<size_t>(indices[row])];
    order[static_cast<size_t>(--offset)] = static_cast<int32_t>(row);
  }
}

std::span<int32_t> ints(const TensorView& view) { return {view.ptr<int32_t>(), static_cast<size_t>(view.numel())}; }

}  // namespace

HWY_EXPORT(embedding_forward_rows);
HWY_EXPORT(embedding_backward_entries);

template <Device D, class T>
void embedding_forward(ExecContext& ctx, const EmbeddingArgs& args) {
  const auto rows = HWY_DYNAMIC_DISPATCH(embedding_forward_rows);
  cpu::parallel_for(*ctx.pool, args.y.rows(), cpu::rows_per_task(args.y.cols()),
                    [&](int64_t begin, int64_t end) { rows(dtype_of<T>, args, begin, end); });
}

template <class T>
void sum_rows(ExecContext& ctx, const EmbeddingGradArgs& args, const EmbeddingGradScratch& scratch) {
  group_rows(ints(args.indices), ints(scratch.order), ints(scratch.offsets));
  const auto entries = HWY_DYNAMIC_DISPATCH(embedding_backward_entries);
  const int64_t num_entries = args.dtable.rows(), grain = cpu::rows_per_task(args.dy.cols());
  const int32_t* starts = scratch.offsets.ptr<int32_t>();
  // The number of rows touched before an entry: those summed and, with beta 0, those written. Skipping an entry costs
  // little.
  const auto work_before = [&](int64_t entry) { return starts[entry] + (args.beta == 0 ? entry : entry / 64); };
  const auto first_entry = [&](int64_t task) {
    int64_t low = 0, high = num_entries;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (work_before(middle) < task * grain)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  ctx.pool->run(work_before(num_entries) / grain + 1, [&](int64_t task) {
    entries(dtype_of<T>, args, scratch.order.ptr<int32_t>(), starts, first_entry(task), first_entry(task + 1));
  });
}

template <Device D, class T>
void embedding_backward(ExecContext& ctx, std::span<const EmbeddingGradArgs> tables,
                        std::span<const EmbeddingGradScratch> scratch) {
  for (size_t i = 0; i < tables.size(); ++i) sum_rows<T>(ctx, tables[i], scratch[i]);
}

template void embedding_forward<Device::cpu, float>(ExecContext&, const EmbeddingArgs&);
template void embedding_forward<Device::cpu, Bf16>(ExecContext&, const EmbeddingArgs&);
template void embedding_forward<Device::cpu, Fp16>(ExecContext&, const EmbeddingArgs&);
template void embedding_backward<Device::cpu, float>(ExecContext&, std::span<const EmbeddingGradArgs>,
                                                     std::span<const EmbeddingGradScratch>);
template void embedding_backward<Device::cpu, Bf16>(ExecContext&, std::span<const EmbeddingGradArgs>,
                                                    std::span<const EmbeddingGradScratch>);
template void embedding_backward<Device::cpu, Fp16>(ExecContext&, std::span<const EmbeddingGradArgs>,
                                                    std::span<const EmbeddingGradScratch>);

}  // namespace gradmill
#endif
