// SPDX-License-Identifier: Apache-2.0
// Backward of norms on CUDA. Rows are loaded to shared memory, the next ones in advance. The sums over rows stay in
// registers until a block has finished its chunk.
#include "cuda/shared_limit.h"
#include "ops/norm/norm_backward_whole.cuh"

namespace gradmill {
namespace {

// Variants of a kernel. plain: RMSNorm. centred: LayerNorm without biases. full: either, with the sums of biases.
enum class NormForm : uint8_t { plain, centred, full };

// A block processes one chunk of rows. Groups of kLanes threads take one row each in turn, and keep the sums over rows
// in registers. While 16 warps process their rows, the next ones are in flight, if there is memory for two `stages`: 86
// KB with 896 columns, where a multiprocessor's share of the bandwidth needs 25. 8 bytes per bf16 element leave time
// for 55 instructions if all schedulers issue all the time; with four warps each they do so half of the time. So as far
// as the sums over a row leave registers (kKeep), values are not read and converted twice, and all tensors share one
// offset. This makes 20 instructions per element, 35 with dropout. kMore: also computes y and dropped, if requested.
template <class N, int kLanes, int kPacks, NormForm kForm, bool kMore>
__global__ void __launch_bounds__(kBackwardThreads, 1) norm_backward_kernel(const BackwardRows<N> args) {
  constexpr int kSize = Packed<N>::kSize, kGroups = kBackwardThreads / kLanes, kSlab = kLanes * kSize;
  constexpr bool kFull = kForm == NormForm::full, kKeep = !kFull && kPacks * kSize <= 24;
  enum Tensor { kValues, kDy, kResidual };
  extern __shared__ int4 memory[];
  __shared__ float shared[2][2][kBackwardThreads / cuda::kWarpSize];
  __shared__ RowStats row_stats[2][kBackwardThreads];  // a slot per thread, as in `stages`
  const Stages<kPacks> stages{memory};
  const int begin = static_cast<int>(blockIdx.x) * args.chunk_rows, end = min(begin + args.chunk_rows, args.rows);
  const int group = static_cast<int>(threadIdx.x) / kLanes, column = column_of<N, kLanes>(0);
  const float scale = 1.0f / static_cast<float>(args.cols);
  const bool centered = kForm == NormForm::centred || (kFull && args.centered);
  const auto in_row = [&](int p) { return column + p * kSlab < args.cols; };

  const int64_t stride = args.sum_stride, step = kGroups * stride;  // the same for all tensors
  const auto fetch = [&](int row, int64_t at, int stage) {
    const bool there = row < end;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const bool whole = there && in_row(p);
      copy_ahead<16>(stages.at(stage, kValues, p), args.sum + at + p * kSlab, whole);
      copy_ahead<16>(stages.at(stage, kDy, p), args.dy + at + p * kSlab, whole);
      if (args.residual) copy_ahead<16>(stages.at(stage, kResidual, p), args.residual + at + p * kSlab, whole);
    }
    RowStats& stats = row_stats[stage][threadIdx.x];
    copy_ahead<4>(&stats.rstd, args.rstd + row, there);
    if (centered) copy_ahead<4>(&stats.mean, args.mean + row, there);
    __pipeline_commit();
  };
  int64_t at = (begin + group) * stride + column;
  if (args.two_stages) fetch(begin + group, at, 0);

  float gain[kPacks][kSize] = {}, dweight[kPacks][kSize] = {}, dbias[kPacks][kSize] = {};
  float dbranch_bias[kPacks][kSize] = {};
  const auto add_to_branch = [&](int p, const Packed<N>& pack) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) dbranch_bias[p][i] += pack[i];
  };
  constexpr bool kKeepGain = !kFull && !kMore;  // otherwise registers are scarce, and the weight is in the L1 cache
  const auto weight_of = [&](int p) {
    return in_row(p) ? Packed<N>::load(args.weight + column + p * kSlab) : Packed<N>{};
  };
  if constexpr (kKeepGain) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const Packed<N> weight = weight_of(p);
#pragma unroll
      for (int i = 0; i < kSize; ++i) gain[p][i] = gain_of(weight[i], args.weight_offset);
    }
  }
  cuda::DropoutRule rule;
  if constexpr (kMore && kKeep) {
    if (args.dropped) rule = cuda::DropoutRule(*args.scalars, args.dropout_site);
  }
  int turn = 0;
  for (int first = begin; first < end; first += kGroups, at += step, turn ^= 1) {
    const int row = first + group, stage = args.two_stages ? turn : 0;
    const bool there = row < end;
    fetch(args.two_stages ? row + kGroups : row, args.two_stages ? at + step : at, args.two_stages ? turn ^ 1 : 0);
    if (args.two_stages) {
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    const RowStats& fetched = row_stats[stage][threadIdx.x];
    const RowStats stats{centered ? fetched.mean : 0.0f, fetched.rstd};
    const auto centre = [&](float value) { return kForm == NormForm::plain ? value : value - stats.mean; };

    float g[kPacks][kSize], centred[kPacks][kSize];  // of the row, if kKeep
    float mean_g = 0, mean_gn = 0;                   // sums, not yet scaled
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const auto values = stages.template load<N>(stage, kValues, p), dy = stages.template load<N>(stage, kDy, p);
      Packed<N> weight = {};
      if constexpr (!kKeepGain) weight = weight_of(p);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        centred[p][i] = centre(values[i]);
        const float normal = centred[p][i] * stats.rstd, grad = dy[i];
        g[p][i] = grad * (kKeepGain ? gain[p][i] : gain_of(weight[i], args.weight_offset));
        mean_gn = fmaf(g[p][i], normal, mean_gn);
        dweight[p][i] = fmaf(grad, normal, dweight[p][i]);
        if constexpr (kForm != NormForm::plain) mean_g = __fadd_rn(mean_g, g[p][i]);
        if constexpr (kFull) dbias[p][i] += grad;
      }
    }
    // Two buffers alternate: before a thread writes one again, it has passed a barrier that follows all reads of it.
    mean_g = centered ? row_sum<kLanes>(mean_g, shared[turn][0]) * scale : 0.0f;
    mean_gn = row_sum<kLanes>(mean_gn, shared[turn][1]) * scale;
    const RowGradient gradient(stats.rstd, mean_g, mean_gn);
    // Otherwise packs are read again, because there are not enough registers to keep them converted to fp32.
    if constexpr (!kKeep) asm volatile("" ::: "memory");
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (!there || !in_row(p)) continue;
      if constexpr (!kKeep || kForm == NormForm::plain) {  // values as stored take half the registers
        const auto values = stages.template load<N>(stage, kValues, p);
#pragma unroll
        for (int i = 0; i < kSize; ++i) centred[p][i] = centre(values[i]);
      }
      if constexpr (!kKeep) {
        const auto dy = stages.template load<N>(stage, kDy, p);
        Packed<N> weight = {};
        if constexpr (!kKeepGain) weight = weight_of(p);
#pragma unroll
        for (int i = 0; i < kSize; ++i)
          g[p][i] = dy[i] * (kKeepGain ? gain[p][i] : gain_of(weight[i], args.weight_offset));
      }
      Packed<N> residual = {};
      if (args.residual) residual = stages.template load<N>(stage, kResidual, p);
      const auto dx = Packed<N>::of([&](int i) { return gradient(residual[i], g[p][i], centred[p][i]); });
      dx.store(args.dx + at + p * kSlab);
      if (!kMore || args.dropped == nullptr) {
        if constexpr (kFull) add_to_branch(p, dx);
      } else if constexpr (kKeep) {
        dropped(rule, dx, row, column + p * kSlab).store(args.dropped + at + p * kSlab);
      } else {
        stages.store(stage, kDy, p, dx);
      }
    }
    if constexpr (kMore) {
      if (!there) continue;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        if (args.y == nullptr || !in_row(p)) continue;
        const Packed<N> weight = weight_of(p);
        normalised(
            stages.template load<N>(stage, kValues, p), stats,
            [&](int i) { return gain_of(weight[i], args.weight_offset); },
            args.bias ? args.bias + column + p * kSlab : nullptr)
            .store(args.y + at + p * kSlab);
      }
      if (kKeep || args.dropped == nullptr) continue;
      const cuda::DropoutRule row_rule(*args.scalars, args.dropout_site);
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        if (!in_row(p)) continue;
        const auto pack = dropped(row_rule, stages.template load<N>(stage, kDy, p), row, column + p * kSlab);
        pack.store(args.dropped + at + p * kSlab);
        if constexpr (kFull) add_to_branch(p, pack);
      }
    }
  }
  __pipeline_wait_prior(0);
  __syncthreads();  // from here on the stages' memory is the sums'
  float* tile = reinterpret_cast<float*>(memory);
  const int64_t offset = int64_t{blockIdx.x} * args.cols;
  if (args.dweight) write_partials<kLanes>(dweight, args.cols, tile, args.dweight + offset);
  if constexpr (!kFull) return;
  __syncthreads();
  if (args.dbias) write_partials<kLanes>(dbias, args.cols, tile, args.dbias + offset);
  __syncthreads();
  if (args.dbranch_bias) write_partials<kLanes>(dbranch_bias, args.cols, tile, args.dbranch_bias + offset);
}

// For any width and alignment: a block processes the rows of its chunk one by one, with its sums in memory.
template <class N>
__global__ void __launch_bounds__(kAnyThreads) norm_backward_any_kernel(const BackwardRows<N> args) {
  __shared__ float shared[kAnyThreads / cuda::kWarpSize];
  const int begin = static_cast<int>(blockIdx.x) * args.chunk_rows, end = min(begin + args.chunk_rows, args.rows);
  const float scale = 1.0f / static_cast<float>(args.cols);
  const int64_t offset = int64_t{blockIdx.x} * args.cols;
  float* dweight = args.dweight ? args.dweight + offset : nullptr;
  float* dbias = args.dbias ? args.dbias + offset : nullptr;
  float* dbranch_bias = args.dbranch_bias ? args.dbranch_bias + offset : nullptr;
  for (int row = begin; row < end; ++row) {
    const N* values = args.sum + row * args.sum_stride;
    const N* dy = args.dy + row * args.dy_stride;
    const RowStats stats{args.centered ? args.mean[row] : 0.0f, args.rstd[row]};
    const auto centred_at = [&](int c) { return cuda::to_float(values[c]) - stats.mean; };
    const auto g_at = [&](int c) {
      return cuda::to_float(dy[c]) * gain_of(cuda::to_float(args.weight[c]), args.weight_offset);
    };
    float mean_g = 0, mean_gn = 0;
    for (int c = threadIdx.x; c < args.cols; c += kAnyThreads) {
      const float normal = centred_at(c) * stats.rstd, grad = cuda::to_float(dy[c]), g = g_at(c);
      mean_g += g;
      mean_gn = fmaf(g, normal, mean_gn);
      if (dweight) dweight[c] = fmaf(grad, normal, row == begin ? 0.0f : dweight[c]);
      if (dbias) dbias[c] = grad + (row == begin ? 0.0f : dbias[c]);
      if (args.y) {
        const float gain = gain_of(cuda::to_float(args.weight[c]), args.weight_offset);
        normalised(
            Packed<N, 1>::load(values + c), stats, [&](int) { return gain; }, args.bias ? args.bias + c : nullptr)
            .store(args.y + row * args.y_stride + c);
      }
    }
    mean_g = args.centered ? cuda::block_reduce(mean_g, Sum{}, 0.0f, shared) * scale : 0.0f;
    mean_gn = cuda::block_reduce(mean_gn, Sum{}, 0.0f, shared) * scale;
    const RowGradient gradient(stats.rstd, mean_g, mean_gn);
    for (int c = threadIdx.x; c < args.cols; c += kAnyThreads) {
      const float residual = args.residual ? cuda::to_float(args.residual[row * args.residual_stride + c]) : 0.0f;
      auto branch = Packed<N, 1>::of([&](int) { return gradient(residual, g_at(c), centred_at(c)); });
      branch.store(args.dx + row * args.dx_stride + c);
      if (args.dropped) {
        branch = dropped(cuda::DropoutRule(*args.scalars, args.dropout_site), branch, row, c);
        branch.store(args.dropped + row * args.dropped_stride + c);
      }
      if (dbranch_bias) dbranch_bias[c] = branch[0] + (row == begin ? 0.0f : dbranch_bias[c]);
    }
  }
}

// For four packs, the sums of biases would not fit in the registers.
constexpr int kMostFullPacks = 3;

template <class N, int kLanes, int kPacks>
auto backward_kernel(NormForm form, bool more) {
  const auto of_form = [&]<NormForm kForm>() {
    return more ? norm_backward_kernel<N, kLanes, kPacks, kForm, true>
                : norm_backward_kernel<N, kLanes, kPacks, kForm, false>;
  };
  if constexpr (kPacks <= kMostFullPacks) {
    if (form == NormForm::full) return of_form.template operator()<NormForm::full>();
  }
  return form == NormForm::centred ? of_form.template operator()<NormForm::centred>()
                                   : of_form.template operator()<NormForm::plain>();
}

}  // namespace

template <Device D, class T>
void norm_backward(ExecContext& ctx, const NormGradArgs& args, const TensorView& partials) {
  using N = cuda::Native<T>;
  const int64_t count = partials.shape[1], size = args.sum.cols(), num_rows = args.sum.rows();
  float* sums = partials.ptr<float>();
  BackwardRows<N> rows{.sum = cuda::native<T>(args.sum),
                       .sum_stride = args.sum.row_stride,
                       .dy = cuda::native<T>(args.dy),
                       .dy_stride = args.dy.row_stride,
                       .residual = optional<T>(args.dresidual),
                       .residual_stride = args.dresidual.row_stride,
                       .dx = cuda::native<T>(args.dx),
                       .dx_stride = args.dx.row_stride,
                       .weight = cuda::native<T>(args.weight),
                       .mean = optional<float>(args.mean),
                       .rstd = args.rstd.ptr<float>(),
                       .dweight = args.dweight.defined() ? sums : nullptr,
                       .dbias = args.dbias.defined() ? sums + count * size : nullptr,
                       .dbranch_bias = args.dbranch_bias.defined() ? sums + 2 * count * size : nullptr,
                       .rows = static_cast<int>(num_rows),
                       .cols = static_cast<int>(size),
                       .chunk_rows = static_cast<int>((num_rows + count - 1) / std::max<int64_t>(count, 1)),
                       .weight_offset = args.weight_offset,
                       .centered = args.kind == NormKind::layer,
                       .two_stages = false,
                       .y = optional<T>(args.y.plain),
                       .y_stride = args.y.plain.row_stride,
                       .bias = optional<T>(args.bias),
                       .dropped = optional<T>(args.dropped),
                       .dropped_stride = args.dropped.row_stride,
                       .scalars = ctx.scalars,
                       .dropout_site = args.dropout_site};
  if (num_rows == 0) return;
  const dim3 grid(static_cast<unsigned>(count));
  const auto strided_alike = [&](const TensorView& view) {
    return !view.defined() || view.row_stride == args.sum.row_stride;
  };
  const bool alike = strided_alike(args.dy) && strided_alike(args.dresidual) && strided_alike(args.dx) &&
                     strided_alike(args.y.plain) && strided_alike(args.dropped);
  const bool packed = alike && aligned<T>(args.sum) && aligned<T>(args.dy) && aligned<T>(args.dresidual) &&
                      aligned<T>(args.dx) && aligned<T>(args.weight) && aligned<T>(args.y.plain) &&
                      aligned<T>(args.bias) && aligned<T>(args.dropped);
  const NormForm form = rows.dbias || rows.dbranch_bias ? NormForm::full
                        : rows.centered                 ? NormForm::centred
                                                        : NormForm::plain;
  const bool more = rows.y || rows.dropped;
  const size_t limit = cuda::shared_limit(ctx.device.compute_capability) - 2 * kBackwardThreads * sizeof(RowStats);
  constexpr int kMost = 4;
  const int most =
      std::min(form == NormForm::full ? kMostFullPacks : kMost, static_cast<int>(limit / Stages<1>::kBytes));
  const auto run = [&]<int kLanes, int kPacks>() {
    constexpr size_t kBytes = Stages<kPacks>::kBytes;
    rows.two_stages = 2 * kBytes <= limit;
    const size_t bytes = rows.two_stages ? 2 * kBytes : kBytes;
    cuda::launch(cuda::LaunchConfig{grid, dim3(kBackwardThreads), cuda::stream_of(ctx), bytes},
                 backward_kernel<N, kLanes, kPacks>(form, more), rows);
  };
  bool done = false;
  if constexpr (sizeof(N) == 2) {
    done = packed && form == NormForm::centred && size == WholeBackward::kCols && rows.residual && !rows.y &&
           WholeBackward::kBytes <= limit;
    if (done) {
      cuda::launch(cuda::LaunchConfig{grid, dim3(kBackwardThreads), cuda::stream_of(ctx), WholeBackward::kBytes},
                   rows.dropped ? norm_backward_whole_kernel<N, true> : norm_backward_whole_kernel<N, false>, rows);
    }
  }
  if (!done) done = packed && with_row_shape<2, kMost>(size / Packed<N>::kSize, most, run);
  if (!done) {
    cuda::launch(cuda::LaunchConfig{grid, dim3(kAnyThreads), cuda::stream_of(ctx)}, norm_backward_any_kernel<N>, rows);
  }
  const TensorView of_chunks(sums, DType::fp32, {count, size});
  const PartialSum all[] = {{of_chunks, args.dweight, args.weight_beta},
                            {of_chunks.shifted(count * size), args.dbias, args.bias_beta},
                            {of_chunks.shifted(2 * count * size), args.dbranch_bias, args.branch_beta}};
  if (args.later == nullptr) return add_partial_sums<Device::cuda>(ctx, all);
  args.later->insert(args.later->end(), std::begin(all), std::end(all));
}

template void norm_backward<Device::cuda, float>(ExecContext&, const NormGradArgs&, const TensorView&);
template void norm_backward<Device::cuda, Bf16>(ExecContext&, const NormGradArgs&, const TensorView&);
template void norm_backward<Device::cuda, Fp16>(ExecContext&, const NormGradArgs&, const TensorView&);

}  // namespace gradmill
