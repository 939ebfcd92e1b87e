// SPDX-License-Identifier: Apache-2.0
// Forward of norms on CUDA: a row stays in the registers of its threads, so that every tensor is moved once.
#include "ops/norm/norm_whole_rows.cuh"

namespace gradmill {
namespace {

constexpr int kForwardThreads = 128;  // per block, unless a row needs more

template <class N>
struct ForwardRows {
  const N* x;
  int64_t x_stride;
  const N* delta;  // null: nothing is added
  int64_t delta_stride;
  N* sum;
  int64_t sum_stride;
  N* y;
  int64_t y_stride;
  const N* weight;
  const N* bias;  // may be null
  float *mean, *rstd;
  int rows, cols;
  float eps, weight_offset;
  bool centered, rebuild;
  const StepScalars* scalars;  // null: delta is added without dropout
  uint32_t dropout_site;
};

template <class N, int kLanes, int kPacks>
__device__ RowStats stats_of(const Packed<N> (&values)[kPacks], const ForwardRows<N>& args) {
  __shared__ float shared[2][kMostLanes / cuda::kWarpSize];
  constexpr int kSize = Packed<N>::kSize;
  float mean = 0;
  if (args.centered) {
    float total = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int i = 0; i < kSize; ++i) total += values[p][i];  // missing packs are 0
    }
    mean = row_sum<kLanes>(total, shared[0]) / static_cast<float>(args.cols);
  }
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (column_of<N, kLanes>(p) >= args.cols) continue;
#pragma unroll
    for (int i = 0; i < kSize; ++i) squares = fmaf(values[p][i] - mean, values[p][i] - mean, squares);
  }
  return {mean, rstd_of(row_sum<kLanes>(squares, shared[1]), args.cols, args.eps)};
}

template <class N, int kCount>
__device__ Packed<N, kCount> scaled(const Packed<N, kCount>& values, RowStats stats, const ForwardRows<N>& args,
                                    int column) {
  const auto weight = Packed<N, kCount>::load(args.weight + column);
  const auto gain = [&](int i) { return gain_of(weight[i], args.weight_offset); };
  return normalised(values, stats, gain, args.bias ? args.bias + column : nullptr);
}

// 8 bytes per bf16 element and about 12 instructions, a third of what the multiprocessors can issue. A thread has up to
// eight 16-byte loads in flight, a multiprocessor about 100 KB, several times what its share of the bandwidth needs.
// Dropout adds about 10 instructions per element, which depend on no load.
template <class N, int kLanes, int kPacks, bool kDropout>
__global__ void __launch_bounds__(kLanes > kForwardThreads ? kLanes : kForwardThreads)
    norm_forward_kernel(const ForwardRows<N> args) {
  const int row = static_cast<int>(blockIdx.x * (blockDim.x / kLanes) + threadIdx.x / kLanes);
  const bool active = row < args.rows;
  const auto present = [&](int p) { return active && column_of<N, kLanes>(p) < args.cols; };
  Packed<N> values[kPacks] = {};
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (present(p)) values[p] = Packed<N>::load_streaming(args.x + row * args.x_stride + column_of<N, kLanes>(p));
  }
  if (args.delta) {
    Packed<N> delta[kPacks] = {};
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (present(p))
        delta[p] = Packed<N>::load_streaming(args.delta + row * args.delta_stride + column_of<N, kLanes>(p));
    }
    if constexpr (kDropout) {
      const cuda::DropoutRule rule(*args.scalars, args.dropout_site);
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        if (present(p)) delta[p] = dropped(rule, delta[p], row, column_of<N, kLanes>(p));
      }
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      values[p] = values[p] + delta[p];
      if (present(p)) values[p].store(args.sum + row * args.sum_stride + column_of<N, kLanes>(p));
    }
  }
  RowStats stats{0, 0};
  if (!args.rebuild) {
    stats = stats_of<N, kLanes, kPacks>(values, args);
    if (active && threadIdx.x % kLanes == 0) {
      if (args.centered) args.mean[row] = stats.mean;
      args.rstd[row] = stats.rstd;
    }
  } else if (active) {
    stats = {args.centered ? args.mean[row] : 0.0f, args.rstd[row]};
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (!present(p)) continue;
    const int column = column_of<N, kLanes>(p);
    scaled(values[p], stats, args, column).store(args.y + row * args.y_stride + column);
  }
}

// For any width and alignment: a block processes its row, which the caches keep.
template <class N>
__global__ void __launch_bounds__(kAnyThreads) norm_forward_any_kernel(const ForwardRows<N> args) {
  __shared__ float shared[kAnyThreads / cuda::kWarpSize];
  const int row = static_cast<int>(blockIdx.x);
  const N* values = args.x + row * args.x_stride;
  if (args.delta) {
    N* sum = args.sum + row * args.sum_stride;
    for (int c = threadIdx.x; c < args.cols; c += kAnyThreads) {
      auto delta = Packed<N, 1>::load(args.delta + row * args.delta_stride + c);
      if (args.scalars) delta = dropped(cuda::DropoutRule(*args.scalars, args.dropout_site), delta, row, c);
      sum[c] = cuda::from_float<N>(cuda::to_float(values[c]) + delta[0]);
    }
    values = sum;  // a thread reads back only what it wrote itself
  }
  RowStats stats{args.rebuild && args.centered ? args.mean[row] : 0.0f, args.rebuild ? args.rstd[row] : 0.0f};
  if (!args.rebuild) {
    if (args.centered) {
      float total = 0;
      for (int c = threadIdx.x; c < args.cols; c += kAnyThreads) total += cuda::to_float(values[c]);
      stats.mean = cuda::block_reduce(total, Sum{}, 0.0f, shared) / static_cast<float>(args.cols);
    }
    float squares = 0;
    for (int c = threadIdx.x; c < args.cols; c += kAnyThreads) {
      const float centered = cuda::to_float(values[c]) - stats.mean;
      squares = fmaf(centered, centered, squares);
    }
    stats.rstd = rstd_of(cuda::block_reduce(squares, Sum{}, 0.0f, shared), args.cols, args.eps);
    if (threadIdx.x == 0) {
      if (args.centered) args.mean[row] = stats.mean;
      args.rstd[row] = stats.rstd;
    }
  }
  for (int c = threadIdx.x; c < args.cols; c += kAnyThreads) {
    scaled(Packed<N, 1>::load(values + c), stats, args, c).store(args.y + row * args.y_stride + c);
  }
}

template <class N>
bool takes_whole_rows(const ForwardRows<N>& rows) {
  return rows.cols == WholeRows::kCols && rows.centered && !rows.rebuild && rows.delta && !rows.bias &&
         rows.weight_offset == 0;
}

template <class N>
void run_whole_rows(ExecContext& ctx, const ForwardRows<N>& rows) {
  const WholeRowsArgs<N> args{.x = rows.x,
                              .delta = rows.delta,
                              .weight = rows.weight,
                              .sum = rows.sum,
                              .y = rows.y,
                              .x_stride = rows.x_stride,
                              .delta_stride = rows.delta_stride,
                              .sum_stride = rows.sum_stride,
                              .y_stride = rows.y_stride,
                              .mean = rows.mean,
                              .rstd = rows.rstd,
                              .rows = rows.rows,
                              .eps = rows.eps,
                              .scalars = rows.scalars,
                              .dropout_site = rows.dropout_site};
  const dim3 grid(static_cast<unsigned>((rows.rows + WholeRows::kRows - 1) / WholeRows::kRows));
  cuda::launch(cuda::LaunchConfig{grid, dim3(WholeRows::kThreads), cuda::stream_of(ctx)},
               rows.scalars ? norm_whole_rows_kernel<N, true> : norm_whole_rows_kernel<N, false>, args);
}

template <class T>
void run_forward(ExecContext& ctx, const NormArgs& args, const TensorView& delta, const TensorView& sum, bool rebuild) {
  using N = cuda::Native<T>;
  const TensorView& y = args.y.plain;
  const ForwardRows<N> rows{.x = cuda::native<T>(args.x),
                            .x_stride = args.x.row_stride,
                            .delta = optional<T>(delta),
                            .delta_stride = delta.row_stride,
                            .sum = optional<T>(sum),
                            .sum_stride = sum.row_stride,
                            .y = cuda::native<T>(y),
                            .y_stride = y.row_stride,
                            .weight = cuda::native<T>(args.weight),
                            .bias = optional<T>(args.bias),
                            .mean = optional<float>(args.mean),
                            .rstd = args.rstd.ptr<float>(),
                            .rows = static_cast<int>(args.x.rows()),
                            .cols = static_cast<int>(args.x.cols()),
                            .eps = args.eps,
                            .weight_offset = args.weight_offset,
                            .centered = args.kind == NormKind::layer,
                            .rebuild = rebuild,
                            .scalars = args.dropout && !rebuild ? ctx.scalars : nullptr,
                            .dropout_site = args.dropout_site};
  if (rows.rows == 0) return;
  const bool packed = aligned<T>(args.x) && aligned<T>(delta) && aligned<T>(sum) && aligned<T>(y) &&
                      aligned<T>(args.weight) && aligned<T>(args.bias);
  if constexpr (sizeof(N) == 2) {
    if (packed && takes_whole_rows(rows)) return run_whole_rows(ctx, rows);
  }
  const bool done = packed && with_row_shape<8, 8>(rows.cols / Packed<N>::kSize, 8, [&]<int kLanes, int kPacks>() {
                      constexpr int kThreads = std::max(kLanes, kForwardThreads), kRows = kThreads / kLanes;
                      const dim3 grid(static_cast<unsigned>((rows.rows + kRows - 1) / kRows));
                      cuda::launch(cuda::LaunchConfig{grid, dim3(kThreads), cuda::stream_of(ctx)},
                                   rows.scalars ? norm_forward_kernel<N, kLanes, kPacks, true>
                                                : norm_forward_kernel<N, kLanes, kPacks, false>,
                                   rows);
                    });
  if (done) return;
  cuda::launch(cuda::LaunchConfig{dim3(static_cast<unsigned>(rows.rows)), dim3(kAnyThreads), cuda::stream_of(ctx)},
               norm_forward_any_kernel<N>, rows);
}

}  // namespace

template <Device D, class T>
void norm_forward(ExecContext& ctx, const NormArgs& args) {
  run_forward<T>(ctx, args, args.delta, args.sum, false);
}

template <Device D, class T>
void norm_rebuild(ExecContext& ctx, const NormArgs& args) {
  run_forward<T>(ctx, args, {}, {}, true);
}

template void norm_forward<Device::cuda, float>(ExecContext&, const NormArgs&);
template void norm_forward<Device::cuda, Bf16>(ExecContext&, const NormArgs&);
template void norm_forward<Device::cuda, Fp16>(ExecContext&, const NormArgs&);
template void norm_rebuild<Device::cuda, float>(ExecContext&, const NormArgs&);
template void norm_rebuild<Device::cuda, Bf16>(ExecContext&, const NormArgs&);
template void norm_rebuild<Device::cuda, Fp16>(ExecContext&, const NormArgs&);

}  // namespace gradmill
