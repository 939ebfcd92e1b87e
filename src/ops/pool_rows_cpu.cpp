// SPDX-License-Identifier: Apache-2.0
// Pooled rows on the CPU: one task per sequence.
#include <algorithm>

#include "cpu/reduce.h"
#include "ops/pool_rows.h"

namespace gradmill {
namespace {

constexpr int64_t kColumns = 256;  // of a mean, processed at a time

template <class T>
void mean_of_rows(const TensorView& x, int64_t begin, int64_t end, T* y) {
  const float share = 1.0f / static_cast<float>(end - begin);
  for (int64_t first = 0; first < x.cols(); first += kColumns) {
    const int64_t count = std::min(kColumns, x.cols() - first);
    float sums[kColumns] = {};
    for (int64_t row = begin; row < end; ++row) {
      const T* values = x.row<T>(row) + first;
      for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<float>(values[i]);
    }
    for (int64_t i = 0; i < count; ++i) y[first + i] = T(sums[i] * share);
  }
}

template <class T>
void spread_mean(const T* dy, int64_t begin, int64_t end, const TensorView& dx) {
  const float share = 1.0f / static_cast<float>(end - begin);
  for (int64_t i = 0; i < dx.cols(); ++i) dx.row<T>(begin)[i] = T(static_cast<float>(dy[i]) * share);
  for (int64_t row = begin + 1; row < end; ++row) std::copy_n(dx.row<T>(begin), dx.cols(), dx.row<T>(row));
}

}  // namespace

template <Device D, class T>
void pool_rows_forward(ExecContext& ctx, const PoolRowsArgs& args) {
  const int32_t* cu = args.cu.ptr<int32_t>();
  cpu::parallel_for(*ctx.pool, args.y.rows(), 1, [&](int64_t first, int64_t last) {
    for (int64_t s = first; s < last; ++s) {
      const int64_t begin = cu[s], end = cu[s + 1];
      assert(begin <= end && end <= args.x.rows());
      T* y = args.y.row<T>(s);
      if (begin == end) {
        std::fill_n(y, args.y.cols(), T(0.0f));
      } else if (args.kind == Pooling::mean) {
        mean_of_rows<T>(args.x, begin, end, y);
      } else {
        std::copy_n(args.x.row<T>(args.kind == Pooling::first ? begin : end - 1), args.y.cols(), y);
      }
    }
  });
}

template <Device D, class T>
void pool_rows_backward(ExecContext& ctx, const PoolRowsGradArgs& args) {
  const int32_t* cu = args.cu.ptr<int32_t>();
  const int64_t seqs = args.dy.rows(), cols = args.dx.cols();
  const auto clear = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) std::fill_n(args.dx.row<T>(row), cols, T(0.0f));
  };
  // One more task than sequences: the rows after the last sequence.
  cpu::parallel_for(*ctx.pool, seqs + 1, 1, [&](int64_t first, int64_t last) {
    for (int64_t s = first; s < last; ++s) {
      const int64_t begin = cu[s], end = s < seqs ? cu[s + 1] : args.dx.rows();
      if (s == seqs) {
        clear(begin, end);
      } else if (begin == end) {
        continue;
      } else if (args.kind == Pooling::mean) {
        spread_mean<T>(args.dy.row<T>(s), begin, end, args.dx);
      } else {
        const int64_t pooled = args.kind == Pooling::first ? begin : end - 1;
        clear(begin, pooled);
        std::copy_n(args.dy.row<T>(s), cols, args.dx.row<T>(pooled));
        clear(pooled + 1, end);
      }
    }
  });
}

template void pool_rows_forward<Device::cpu, float>(ExecContext&, const PoolRowsArgs&);
template void pool_rows_forward<Device::cpu, Bf16>(ExecContext&, const PoolRowsArgs&);
template void pool_rows_forward<Device::cpu, Fp16>(ExecContext&, const PoolRowsArgs&);
template void pool_rows_backward<Device::cpu, float>(ExecContext&, const PoolRowsGradArgs&);
template void pool_rows_backward<Device::cpu, Bf16>(ExecContext&, const PoolRowsGradArgs&);
template void pool_rows_backward<Device::cpu, Fp16>(ExecContext&, const PoolRowsGradArgs&);

}  // namespace gradmill
