// SPDX-License-Identifier: Apache-2.0
// Norms on CUDA, backward: rows in shared memory, the next ones on their way there, and the sums over rows in registers
// until a block has done its chunk.
#include <cuda_pipeline.h>

#include "cuda/partials.cuh"
#include "cuda/shared_limit.h"
#include "ops/norm_rows.cuh"

namespace gradmill {
namespace {

constexpr int kBackwardThreads = 512;  // one block a multiprocessor: 128 registers a thread

template <class N>
struct BackwardRows {
  const N* sum;
  int64_t sum_stride;
  const N* dy;
  int64_t dy_stride;
  const N* residual;  // or null
  int64_t residual_stride;
  N* dx;
  int64_t dx_stride;
  const N* weight;
  const float *mean, *rstd;
  float *dweight, *dbias;  // (chunks, cols), or null
  int rows, cols, chunk_rows;
  float weight_offset;
  bool centered, two_stages;
  N* y;  // or null
  int64_t y_stride;
  const N* bias;  // or null
  N* dropped;     // or null
  int64_t dropped_stride;
  const StepScalars* scalars;
  uint32_t dropout_site;
};

// dx = residual + rstd * (g - mean(g) - n * mean(g * n)) with n the normalised row and g = dy * gain. As a row needs
// it: residual - shift + g * rstd - centred * slope. Sums are pinned, so that all variants of a kernel give the same
// bits.
struct RowGradient {
  float rstd, shift, slope;

  __device__ RowGradient(float row_rstd, float mean_g, float mean_gn)
      : rstd(row_rstd), shift(row_rstd * mean_g), slope(row_rstd * row_rstd * mean_gn) {}
  __device__ float operator()(float residual, float g, float centred) const {
    return fmaf(g, rstd, fmaf(-centred, slope, __fsub_rn(residual, shift)));
  }
};

// Adds the rows' sums of a block in order: those of pack p of all threads at a time, in a `tile` of kSize floats a
// thread.
template <int kLanes, int kPacks, int kSize>
__device__ void write_partials(const float (&sums)[kPacks][kSize], int cols, float* tile, float* out) {
  constexpr int kColumns = kLanes * kSize, kGroups = kBackwardThreads / kLanes;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) tile[static_cast<int>(threadIdx.x) * kSize + i] = sums[p][i];
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < kColumns && p * kColumns + c < cols; c += kBackwardThreads) {
      float total = 0;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) total += tile[group * kColumns + c];
      out[p * kColumns + c] = total;
    }
    __syncthreads();
  }
}

// Rows in shared memory: each thread copies, and looks at, its own packs only, so that no barrier is needed.
template <int kPacks>
struct Stages {
  static constexpr int kTensors = 3;
  static constexpr size_t kBytes = size_t{kTensors} * kPacks * kBackwardThreads * sizeof(int4);  // of one
  int4* memory;

  __device__ int4* at(int stage, int tensor, int p) const {
    return memory + ((stage * kTensors + tensor) * kPacks + p) * kBackwardThreads + threadIdx.x;
  }
  template <class N>
  __device__ Packed<N> load(int stage, int tensor, int p) const {
    return Packed<N>::load(reinterpret_cast<const N*>(at(stage, tensor, p)));
  }
  template <class N>
  __device__ void store(int stage, int tensor, int p, const Packed<N>& pack) const {
    *reinterpret_cast<uint4*>(at(stage, tensor, p)) = {pack.words[0], pack.words[1], pack.words[2], pack.words[3]};
  }
};

// A block takes one chunk of rows, its groups of kLanes threads a row each in turn, and keeps the sums of dweight (and
// dbias, and whatever else RMSNorm does not have: kFull) in registers all the while. 8 bytes a bf16 element leave time
// for 55 instructions; it takes 20 to 30. While 16 warps work on their rows the next ones are on their way, if there is
// memory for two `stages`: 86 KB with 896 columns, where an SM's share of the bandwidth needs 25.
// kMore: y and dropped, if asked for.
template <class N, int kLanes, int kPacks, bool kFull, bool kMore>
__global__ void __launch_bounds__(kBackwardThreads, 1) norm_backward_kernel(const BackwardRows<N> args) {
  constexpr int kSize = Packed<N>::kSize, kGroups = kBackwardThreads / kLanes, kSlab = kLanes * kSize;
  enum Tensor { kValues, kDy, kResidual };
  extern __shared__ int4 memory[];
  __shared__ float shared[2][2][kBackwardThreads / cuda::kWarpSize];
  __shared__ RowStats row_stats[2][kBackwardThreads];  // a slot for each thread, as in `stages`
  const Stages<kPacks> stages{memory};
  const int begin = static_cast<int>(blockIdx.x) * args.chunk_rows, end = min(begin + args.chunk_rows, args.rows);
  const int column = column_of<N, kLanes>(0);
  const float scale = 1.0f / static_cast<float>(args.cols);
  const auto present = [&](int row, int p) { return row < end && column + p * kSlab < args.cols; };
  const auto fetch = [&](int row, int stage) {
    const N* values_at = args.sum + row * args.sum_stride + column;
    const N* dy_at = args.dy + row * args.dy_stride + column;
    const N* residual_at = args.residual ? args.residual + row * args.residual_stride + column : nullptr;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (!present(row, p)) continue;
      __pipeline_memcpy_async(stages.at(stage, kValues, p), values_at + p * kSlab, sizeof(int4));
      __pipeline_memcpy_async(stages.at(stage, kDy, p), dy_at + p * kSlab, sizeof(int4));
      if (residual_at) __pipeline_memcpy_async(stages.at(stage, kResidual, p), residual_at + p * kSlab, sizeof(int4));
    }
    RowStats& stats = row_stats[stage][threadIdx.x];
    if (row < end) __pipeline_memcpy_async(&stats.rstd, args.rstd + row, sizeof(float));
    if (kFull && args.centered && row < end) __pipeline_memcpy_async(&stats.mean, args.mean + row, sizeof(float));
    __pipeline_commit();
  };
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  if (args.two_stages) fetch(begin + group, 0);

  float gain[kPacks][kSize] = {}, dweight[kPacks][kSize] = {}, dbias[kPacks][kSize] = {};
  constexpr bool kKeepGain = !kFull && !kMore;  // else registers are short, and the L1 cache has the weight
  const auto weight_of = [&](int p) { return Packed<N>::load(args.weight + column + p * kSlab); };
  if constexpr (kKeepGain) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (column + p * kSlab >= args.cols) continue;
      const Packed<N> weight = weight_of(p);
#pragma unroll
      for (int i = 0; i < kSize; ++i) gain[p][i] = weight[i] + args.weight_offset;
    }
  }
  int turn = 0;
  for (int first = begin; first < end; first += kGroups, turn ^= 1) {
    const int row = first + group, stage = args.two_stages ? turn : 0;
    fetch(args.two_stages ? row + kGroups : row, args.two_stages ? turn ^ 1 : 0);
    if (args.two_stages) {
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    RowStats stats{0, 0};
    if (row < end) {
      const RowStats& fetched = row_stats[stage][threadIdx.x];
      stats = {kFull && args.centered ? fetched.mean : 0.0f, fetched.rstd};
    }
    const auto centred = [&](const Packed<N>& values, int i) { return kFull ? values[i] - stats.mean : values[i]; };

    float mean_g = 0, mean_gn = 0;  // sums, until they are scaled
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      Packed<N> values = {}, dy = {}, weight = {};  // a missing pack adds 0
      const auto gain_at = [&](int i) { return kKeepGain ? gain[p][i] : weight[i] + args.weight_offset; };
      if (present(row, p)) {
        if constexpr (!kKeepGain) weight = weight_of(p);
        values = stages.template load<N>(stage, kValues, p);
        dy = stages.template load<N>(stage, kDy, p);
      }
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const float normal = centred(values, i) * stats.rstd, grad = dy[i];
        const float g = grad * gain_at(i);
        mean_gn = fmaf(g, normal, mean_gn);
        dweight[p][i] = fmaf(grad, normal, dweight[p][i]);
        if constexpr (!kFull) continue;
        mean_g = __fadd_rn(mean_g, g);
        dbias[p][i] += grad;
      }
    }
    // Two buffers in turn: whoever writes one again has passed a barrier behind all its readers.
    mean_g = kFull && args.centered ? row_sum<kLanes>(mean_g, shared[turn][0]) * scale : 0.0f;
    mean_gn = row_sum<kLanes>(mean_gn, shared[turn][1]) * scale;
    const RowGradient gradient(stats.rstd, mean_g, mean_gn);
    // Packs are read again: to keep them converted to fp32 would take more registers than there are.
    asm volatile("" ::: "memory");
    N* dx_at = args.dx + row * args.dx_stride + column;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (!present(row, p)) continue;
      const auto values = stages.template load<N>(stage, kValues, p), dy = stages.template load<N>(stage, kDy, p);
      Packed<N> residual = {}, weight = {};
      if constexpr (!kKeepGain) weight = weight_of(p);
      const auto gain_at = [&](int i) { return kKeepGain ? gain[p][i] : weight[i] + args.weight_offset; };
      if (args.residual) residual = stages.template load<N>(stage, kResidual, p);
      const auto dx =
          Packed<N>::of([&](int i) { return gradient(residual[i], dy[i] * gain_at(i), centred(values, i)); });
      dx.store(dx_at + p * kSlab);
      if (kMore && args.dropped) stages.store(stage, kDy, p, dx);
    }
    if constexpr (kMore) {
      N* y_at = args.y + row * args.y_stride + column;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        if (args.y == nullptr || !present(row, p)) continue;
        const N* bias = args.bias ? args.bias + column + p * kSlab : nullptr;
        const Packed<N> weight = weight_of(p);
        normalised(
            stages.template load<N>(stage, kValues, p), stats, [&](int i) { return weight[i] + args.weight_offset; },
            bias)
            .store(y_at + p * kSlab);
      }
      if (args.dropped == nullptr || row >= end) continue;
      const cuda::DropoutRule rule(*args.scalars, args.dropout_site);
      N* dropped_at = args.dropped + row * args.dropped_stride + column;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        if (!present(row, p)) continue;
        const auto dx = stages.template load<N>(stage, kDy, p);
        dropped(rule, dx, row, column + p * kSlab).store(dropped_at + p * kSlab);
      }
    }
  }
  __syncthreads();  // from here on the stages' memory is the sums'
  float* tile = reinterpret_cast<float*>(memory);
  const int64_t offset = int64_t{blockIdx.x} * args.cols;
  if (args.dweight) write_partials<kLanes>(dweight, args.cols, tile, args.dweight + offset);
  if (kFull && args.dbias) write_partials<kLanes>(dbias, args.cols, tile, args.dbias + offset);
}

// Any width and alignment: a block walks the rows of its chunk one by one, its sums in memory.
template <class N>
__global__ void __launch_bounds__(kAnyThreads) norm_backward_any_kernel(const BackwardRows<N> args) {
  __shared__ float shared[kAnyThreads / cuda::kWarpSize];
  const int begin = static_cast<int>(blockIdx.x) * args.chunk_rows, end = min(begin + args.chunk_rows, args.rows);
  const float scale = 1.0f / static_cast<float>(args.cols);
  const int64_t offset = int64_t{blockIdx.x} * args.cols;
  float* dweight = args.dweight ? args.dweight + offset : nullptr;
  float* dbias = args.dbias ? args.dbias + offset : nullptr;
  for (int row = begin; row < end; ++row) {
    const N* values = args.sum + row * args.sum_stride;
    const N* dy = args.dy + row * args.dy_stride;
    const RowStats stats{args.centered ? args.mean[row] : 0.0f, args.rstd[row]};
    const auto centred_at = [&](int c) { return cuda::to_float(values[c]) - stats.mean; };
    const auto g_at = [&](int c) {
      return cuda::to_float(dy[c]) * (cuda::to_float(args.weight[c]) + args.weight_offset);
    };
    float mean_g = 0, mean_gn = 0;
    for (int c = threadIdx.x; c < args.cols; c += kAnyThreads) {
      const float normal = centred_at(c) * stats.rstd, grad = cuda::to_float(dy[c]), g = g_at(c);
      mean_g += g;
      mean_gn = fmaf(g, normal, mean_gn);
      if (dweight) dweight[c] = fmaf(grad, normal, row == begin ? 0.0f : dweight[c]);
      if (dbias) dbias[c] = grad + (row == begin ? 0.0f : dbias[c]);
      if (args.y) {
        const float gain = cuda::to_float(args.weight[c]) + args.weight_offset;
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
      const auto dx = Packed<N, 1>::of([&](int) { return gradient(residual, g_at(c), centred_at(c)); });
      dx.store(args.dx + row * args.dx_stride + c);
      if (args.dropped == nullptr) continue;
      const cuda::DropoutRule rule(*args.scalars, args.dropout_site);
      dropped(rule, dx, row, c).store(args.dropped + row * args.dropped_stride + c);
    }
  }
}

// LayerNorm's sums of four packs would not fit the registers.
constexpr int kMostFullPacks = 3;

template <class N, int kLanes, int kPacks>
auto backward_kernel(bool full, bool more) {
  if constexpr (kPacks <= kMostFullPacks) {
    if (full) {
      return more ? norm_backward_kernel<N, kLanes, kPacks, true, true>
                  : norm_backward_kernel<N, kLanes, kPacks, true, false>;
    }
  }
  return more ? norm_backward_kernel<N, kLanes, kPacks, false, true>
              : norm_backward_kernel<N, kLanes, kPacks, false, false>;
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
  const bool packed = aligned<T>(args.sum) && aligned<T>(args.dy) && aligned<T>(args.dresidual) &&
                      aligned<T>(args.dx) && aligned<T>(args.weight) && aligned<T>(args.y.plain) &&
                      aligned<T>(args.bias) && aligned<T>(args.dropped);
  const bool full = rows.centered || rows.dbias, more = rows.y || rows.dropped;
  const size_t limit = cuda::shared_limit(ctx.device.compute_capability) - 2 * kBackwardThreads * sizeof(RowStats);
  const int most = std::min(full ? kMostFullPacks : 4, static_cast<int>(limit / Stages<1>::kBytes));
  const auto run = [&]<int kLanes, int kPacks>() {
    constexpr size_t kBytes = Stages<kPacks>::kBytes;
    rows.two_stages = 2 * kBytes <= limit;
    const size_t bytes = rows.two_stages ? 2 * kBytes : kBytes;
    cuda::launch(cuda::LaunchConfig{grid, dim3(kBackwardThreads), cuda::stream_of(ctx), bytes},
                 backward_kernel<N, kLanes, kPacks>(full, more), rows);
  };
  const bool done = packed && with_row_shape(size / Packed<N>::kSize, most, run);
  if (!done) {
    cuda::launch(cuda::LaunchConfig{grid, dim3(kAnyThreads), cuda::stream_of(ctx)}, norm_backward_any_kernel<N>, rows);
  }
  const cuda::PartialSums dweight{rows.dweight, optional<float>(args.dweight), args.weight_beta};
  const cuda::PartialSums dbias{rows.dbias, optional<float>(args.dbias), args.bias_beta};
  cuda::add_partials(cuda::stream_of(ctx), count, size, dweight, dbias);
}

template void norm_backward<Device::cuda, float>(ExecContext&, const NormGradArgs&, const TensorView&);
template void norm_backward<Device::cuda, Bf16>(ExecContext&, const NormGradArgs&, const TensorView&);
template void norm_backward<Device::cuda, Fp16>(ExecContext&, const NormGradArgs&, const TensorView&);

}  // namespace gradmill
