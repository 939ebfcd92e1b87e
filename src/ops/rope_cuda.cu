// SPDX-License-Identifier: Apache-2.0
// RoPE on a GPU. A group of neighbouring lanes holds a head. Each lane has the same elements of both halves, 16 bytes
// of each, so that a pair stays within one thread, rotating in place is safe, and QK-norm reduces within the group. A
// group keeps its head and loops over rows, so that the gain and the gradients of one weight stay in registers.
// Memory-bound: the forward reads and writes each element once; the backward of QK-norm reads two and writes one. The
// table of angles comes from the caches.
#include "ops/rope.h"

#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "ops/partial_sums.h"
#include "ops/rope_heads.cuh"

namespace gradmill {
namespace {

constexpr int kForwardBlocks = 3, kBackwardBlocks = 2;  // per multiprocessor: what the registers allow
constexpr uint32_t kForwardRows = 4;                    // per thread, at most: many short blocks even out the load

// `step` rows are processed at a time, while the next ones are in flight: 32 bytes per thread, 24 KB per
// multiprocessor, which is 50% more than needed to keep the memory busy. About 12 instructions per element with
// QK-norm, two fifths of what could be issued while its 4 bytes (bf16) move.
template <class N, class L, bool kNormed>
__global__ void __launch_bounds__(kThreads, kForwardBlocks) rope_kernel(const Rope<N> rope, uint32_t step) {
  const Place place = Place::of<L>(rope.all_heads, rope.head_dim);
  const int half = rope.head_dim / 2;
  const N* in = rope.in + place.column;
  N* out = rope.out + place.column;
  RawHead<N, L> next;
  int next_position = 0;
  const auto load_next = [&](uint32_t row) {
    next = RawHead<N, L>::load_streaming(in + row * rope.in_stride, half, row < rope.rows);
    if (row < rope.rows) next_position = rope.positions[row];
  };
  uint32_t row = place.row < step ? place.row : rope.rows;
  load_next(row);
  Head<L> gain;
  if constexpr (kNormed) gain = gain_of<L>(rope, place.head < rope.heads);
#pragma unroll 1
  for (uint32_t first = 0; first < rope.rows; first += step, row += step) {
    Head<L> angles = angles_at<L>(rope, next_position), x(next);
    load_next(row + step);
    if constexpr (kNormed) {
      const float rstd = rstd_of(rope, x);
      angles.scale(rstd, rstd);
      x.zip(gain, [](float& value, float factor) { value *= factor; });
    } else {
      angles.scale(1, rope.direction);
    }
    x.rotate(angles);
    if (row < rope.rows) x.store(out + row * rope.out_stride, half);
  }
}

// Sums over the block's groups with a head of q to q_out (D), and over those with a head of k to k_out.
template <class L>
__device__ void sum_over_block(const Head<L>& sums, bool query, int half, float* q_out, float* k_out) {
  constexpr int kWidth = 2 * L::kHalf, kParts = kThreads / kWidth;
  __shared__ float held[L::kGroups][kWidth + 1];  // the groups of a warp write to different banks
  __shared__ float parts[2][kParts][kWidth];
  __shared__ bool queries[L::kGroups];
#pragma unroll
  for (int i = 0; i < L::kPairs; ++i) {
    const int element = L::first() + L::offset(i / L::kPack) + i % L::kPack;
    held[L::group()][element] = sums.low[i];
    held[L::group()][L::kHalf + element] = sums.high[i];
  }
  if (L::first() == 0) queries[L::group()] = query;
  __syncthreads();
  const int part = static_cast<int>(threadIdx.x) / kWidth, column = static_cast<int>(threadIdx.x) % kWidth;
  float of_q = 0, of_k = 0;
#pragma unroll 8
  for (int i = 0; i < L::kGroups / kParts; ++i) {
    const int group = part + i * kParts;
    of_q += queries[group] ? held[group][column] : 0;
    of_k += queries[group] ? 0 : held[group][column];
  }
  parts[0][part][column] = of_q;
  parts[1][part][column] = of_k;
  __syncthreads();
  const int element = column % L::kHalf;
  if (part != 0 || element >= half) return;
#pragma unroll
  for (int p = 1; p < kParts; ++p) of_q += parts[0][p][column], of_k += parts[1][p][column];
  q_out[column / L::kHalf * half + element] = of_q;
  k_out[column / L::kHalf * half + element] = of_k;
}

// dx = rstd * (g - n * mean(g * n)), where n = rstd * x is the normalised head and g = gain * (dout rotated back);
// dweight = sum of n * (dout rotated back). With rstd multiplied into the angles, these become g' - x * rstd^2 *
// mean(g' * x) and the sum of x * dout'. `rope.out` is din. The grid is fixed, so that there are few partials. 64 bytes
// per thread are in flight, 32 KB per multiprocessor. About 18 instructions per element, two fifths of what could be
// issued while its 6 bytes (bf16) move.
template <class N, class L>
__global__ void __launch_bounds__(kThreads, kBackwardBlocks)
    normed_backward_kernel(const Rope<N> rope, const N* dout, int64_t dout_stride, float* partials) {
  const uint32_t step = gridDim.x * L::kGroups / rope.all_heads;
  const Place place = Place::of<L>(rope.all_heads, rope.head_dim);
  const bool query = place.head < rope.heads;
  const int half = rope.head_dim / 2;
  const N* in = rope.in + place.column;
  N* din = rope.out + place.column;
  dout += place.column;
  RawHead<N, L> next_x, next_grad;
  int next_position = 0;
  const auto load_next = [&](uint32_t row) {
    next_x = RawHead<N, L>::load_streaming(in + row * rope.in_stride, half, row < rope.rows);
    next_grad = RawHead<N, L>::load_streaming(dout + row * dout_stride, half, row < rope.rows);
    if (row < rope.rows) next_position = rope.positions[row];
  };
  uint32_t row = place.row < step ? place.row : rope.rows;
  load_next(row);
  const Head<L> gain = gain_of<L>(rope, query);
  Head<L> dweight = {};
#pragma unroll 1
  for (uint32_t first = 0; first < rope.rows; first += step, row += step) {
    Head<L> angles = angles_at<L>(rope, next_position), grad(next_grad);
    const Head<L> x(next_x);
    load_next(row + step);
    const float of_row = rstd_of(rope, x), rstd = row < rope.rows ? of_row : 0;
    angles.scale(rstd, -rstd);
    grad.rotate(angles);
#pragma unroll
    for (int i = 0; i < L::kPairs; ++i) {
      dweight.low[i] = fmaf(grad.low[i], x.low[i], dweight.low[i]);
      dweight.high[i] = fmaf(grad.high[i], x.high[i], dweight.high[i]);
    }
    grad.zip(gain, [](float& value, float factor) { value *= factor; });
    const float slope = rstd * rstd * (grad.dot(x) * rope.inverse_dim);
    grad.zip(x, [&](float& value, float of_x) { value = fmaf(-of_x, slope, value); });
    if (row < rope.rows) grad.store(din + row * rope.out_stride, half);
  }
  float* mine = partials + int64_t{blockIdx.x} * rope.head_dim;
  sum_over_block(dweight, query, half, mine, mine + int64_t{gridDim.x} * rope.head_dim);
}

template <class T>
Rope<cuda::Native<T>> make_rope(const RopeArgs& args, const TensorView& in, const TensorView& out, float direction) {
  const bool normed = args.q_weight.defined();
  return {.in = cuda::native<T>(in),
          .out = cuda::native<T>(out),
          .positions = args.positions.ptr<int32_t>(),
          .cos_sin = args.cos_sin.ptr<float>(),
          .q_weight = normed ? cuda::native<T>(args.q_weight) : nullptr,
          .k_weight = normed ? cuda::native<T>(args.k_weight) : nullptr,
          .in_stride = in.row_stride,
          .out_stride = out.row_stride,
          .rows = static_cast<uint32_t>(in.rows()),
          .heads = static_cast<uint32_t>(args.heads),
          .all_heads = static_cast<uint32_t>(args.heads + args.kv_heads),
          .head_dim = static_cast<int>(args.head_dim),
          .inverse_dim = 1.0f / static_cast<float>(args.head_dim),
          .eps = args.eps,
          .weight_offset = args.weight_offset,
          .direction = direction};
}

// Calls run.template operator()<Layout>() with the layout for heads of this size: 16 bytes per lane if all tensors
// allow it, otherwise one element at a time on a whole warp.
template <class T, class Run>
void with_layout(int64_t head_dim, std::initializer_list<TensorView> views, Run&& run) {
  constexpr int kPack = 16 / sizeof(T);
  if (head_dim > kMaxHeadDim) {
    throw Error(ExitCode::failure,
                fmt::format("RoPE on a GPU takes heads of at most {} elements, not {}", kMaxHeadDim, head_dim),
                "choose more heads or a smaller head size");
  }
  // undefined views are aligned
  const bool aligned = std::all_of(views.begin(), views.end(), [](const TensorView& view) {
    return view.row_stride % kPack == 0 && reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
  });
  const int64_t half = head_dim / 2, packs = half / kPack;
  if (!aligned || half % kPack != 0) return run.template operator()<Layout<1, 32, kMaxHeadDim / 64>>();
  if (packs <= 4) return run.template operator()<Layout<kPack, 4, 1>>();
  if (packs <= 8) return run.template operator()<Layout<kPack, 8, 1>>();
  if (packs <= 16) return run.template operator()<Layout<kPack, 16, 1>>();
  if constexpr (kPack * 32 * 2 <= kMaxHeadDim) return run.template operator()<Layout<kPack, 32, 1>>();
}

template <class T, bool kNormed>
void rotate(ExecContext& ctx, const Rope<cuda::Native<T>>& rope, std::initializer_list<TensorView> views) {
  if (rope.rows == 0) return;
  with_layout<T>(rope.head_dim, views, [&]<class L>() {
    const auto blocks_for = [&](uint32_t rows) { return (rows * rope.all_heads + L::kGroups - 1) / L::kGroups; };
    const auto resident = static_cast<uint32_t>(kForwardBlocks * ctx.device.num_units);
    const uint32_t rows_each = std::clamp(blocks_for(rope.rows) / std::max(resident, 1u), 1u, kForwardRows);
    const uint32_t step = (rope.rows + rows_each - 1) / rows_each, blocks = blocks_for(step);
    cuda::launch({blocks, kThreads, cuda::stream_of(ctx)}, rope_kernel<cuda::Native<T>, L, kNormed>, rope, step);
  });
}

}  // namespace

template <Device D, class T>
void rope_forward(ExecContext& ctx, const RopeArgs& args) {
  const auto rope = make_rope<T>(args, args.in, args.out, 1);
  const auto views = {args.in, args.out, args.q_weight, args.k_weight, args.cos_sin};
  return args.q_weight.defined() ? rotate<T, true>(ctx, rope, views) : rotate<T, false>(ctx, rope, views);
}

template <Device D, class T>
void rope_backward(ExecContext& ctx, const RopeGradArgs& args, const TensorView& partials) {
  using N = cuda::Native<T>;
  const RopeArgs& forward = args.forward;
  if (!partials.defined()) {
    const auto rope = make_rope<T>(forward, args.dout, args.din, -1);
    return rotate<T, false>(ctx, rope, {args.dout, args.din, forward.cos_sin});
  }
  const auto rope = make_rope<T>(forward, forward.in, args.din, -1);
  const cudaStream_t stream = cuda::stream_of(ctx);
  const int64_t count = partials.shape[1];
  const auto views = {forward.in, args.dout, args.din, forward.q_weight, forward.k_weight, forward.cos_sin};
  with_layout<T>(forward.head_dim, views, [&]<class L>() {
    cuda::launch({static_cast<unsigned>(count), kThreads, stream}, normed_backward_kernel<N, L>, rope,
                 cuda::native<T>(args.dout), args.dout.row_stride, partials.ptr<float>());
  });
  const TensorView dq_partials(partials.data, DType::fp32, {count, forward.head_dim});
  const TensorView dk_partials = dq_partials.shifted(dq_partials.numel());
  const PartialSum sums[] = {{dq_partials, args.dq_weight, args.q_beta}, {dk_partials, args.dk_weight, args.k_beta}};
  add_partial_sums<Device::cuda>(ctx, sums);
}

template void rope_forward<Device::cuda, float>(ExecContext&, const RopeArgs&);
template void rope_forward<Device::cuda, Bf16>(ExecContext&, const RopeArgs&);
template void rope_forward<Device::cuda, Fp16>(ExecContext&, const RopeArgs&);
template void rope_backward<Device::cuda, float>(ExecContext&, const RopeGradArgs&, const TensorView&);
template void rope_backward<Device::cuda, Bf16>(ExecContext&, const RopeGradArgs&, const TensorView&);
template void rope_backward<Device::cuda, Fp16>(ExecContext&, const RopeGradArgs&, const TensorView&);

}  // namespace gradmill
