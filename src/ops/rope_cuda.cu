// SPDX-License-Identifier: Apache-2.0
// RoPE on a GPU. A few neighbouring lanes hold a head: each the same elements of both halves, 16 bytes of each, so that
// a pair never leaves its thread, rotating in place is safe, and QK-norm reduces within the lanes. Memory-bound: the
// forward reads and writes each element once, the backward of QK-norm reads two and writes one; the table of angles
// comes from the caches.
#include "ops/rope.h"

#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/numeric.cuh"
#include "cuda/partials.cuh"
#include "cuda/reduce.cuh"

namespace gradmill {
namespace {

using cuda::Pack;

constexpr int kThreads = 256, kWarps = kThreads / cuda::kWarpSize, kMaxHeadDim = 256;

// How a head lies on lanes: piece i of a lane is the kPack elements from (lane + i * kLanes) * kPack on, of either
// half. Pieces beyond the half read as zeros and are not written.
template <int kPackSize, int kNumLanes, int kPieces>
struct Layout {
  static constexpr int kPack = kPackSize, kLanes = kNumLanes, kCount = kPack * kPieces;

  __device__ static int element(int lane, int piece) { return (lane + piece * kLanes) * kPack; }

  template <class N>
  __device__ static void load(const N* from, int lane, int half, bool active, float (&values)[kCount]) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int first = element(lane, piece);
      Pack<N, kPack> pack;
      for (int i = 0; i < kPack; ++i) pack.set(i, 0);
      if (active && first < half) pack = Pack<N, kPack>::load(from + first);
      for (int i = 0; i < kPack; ++i) values[piece * kPack + i] = pack[i];
    }
  }

  template <class N>
  __device__ static void store(N* to, int lane, int half, const float (&values)[kCount]) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int first = element(lane, piece);
      Pack<N, kPack> pack;
      for (int i = 0; i < kPack; ++i) pack.set(i, values[piece * kPack + i]);
      if (first < half) pack.store(to + first);
    }
  }
};

template <class N>
struct Rope {
  const N* in;
  N* out;
  const int32_t* positions;
  const float* cos_sin;
  const N *q_weight, *k_weight;  // null: no QK-norm
  int64_t in_stride, out_stride, rows;
  int heads, all_heads, head_dim;
  float eps, weight_offset;
  float direction;  // of the rotation: -1 turns back
};

// The thread's place in a block: `width` threads share a row. All threads of a warp stay until the end, for reductions
// need whole warps; those beyond the rows are not active.
template <class L>
struct Place {
  int lane, group, groups, rows_per_block, row;

  __device__ explicit Place(int width) {
    const int thread = static_cast<int>(threadIdx.x);
    lane = thread % L::kLanes;
    group = thread % width / L::kLanes;
    groups = width / L::kLanes;
    rows_per_block = kThreads / width;
    row = thread / width;
  }
};

template <class L>
struct Head {
  float low[L::kCount], high[L::kCount];

  template <class N>
  __device__ void load(const N* head, int lane, int half, bool active) {
    L::load(head, lane, half, active, low);
    L::load(head + half, lane, half, active, high);
  }
  template <class N>
  __device__ void store(N* head, int lane, int half) const {
    L::store(head, lane, half, low);
    L::store(head + half, lane, half, high);
  }
  __device__ void rotate(const Head& angles) {
#pragma unroll
    for (int i = 0; i < L::kCount; ++i) {
      const float x = low[i], y = high[i], cosine = angles.low[i], sine = angles.high[i];
      low[i] = fmaf(-y, sine, x * cosine);
      high[i] = fmaf(x, sine, y * cosine);
    }
  }
  // Sum over the head of this * other.
  __device__ float dot(const Head& other) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < L::kCount; ++i) sum = fmaf(high[i], other.high[i], fmaf(low[i], other.low[i], sum));
    return cuda::warp_reduce<L::kLanes>(sum, cuda::Sum{});
  }
  __device__ void multiply(const Head& other) {
#pragma unroll
    for (int i = 0; i < L::kCount; ++i) low[i] *= other.low[i], high[i] *= other.high[i];
  }
  __device__ void add_product(const Head& a, const Head& b) {
#pragma unroll
    for (int i = 0; i < L::kCount; ++i) {
      low[i] = fmaf(a.low[i], b.low[i], low[i]);
      high[i] = fmaf(a.high[i], b.high[i], high[i]);
    }
  }
  __device__ void scale(float factor) {
#pragma unroll
    for (int i = 0; i < L::kCount; ++i) low[i] *= factor, high[i] *= factor;
  }
  __device__ void add(float value) {
#pragma unroll
    for (int i = 0; i < L::kCount; ++i) low[i] += value, high[i] += value;
  }
};

// Cosines in the first half, sines in the second.
template <class L, class N>
__device__ Head<L> angles_of(const Rope<N>& rope, int64_t row, int lane, bool active) {
  Head<L> angles;
  const int64_t position = active ? rope.positions[row] : 0;
  angles.load(rope.cos_sin + position * rope.head_dim, lane, rope.head_dim / 2, active);
#pragma unroll
  for (int i = 0; i < L::kCount; ++i) angles.high[i] *= rope.direction;
  return angles;
}

template <class L>
__device__ float rstd_of(const Head<L>& x, int head_dim, float eps) {
  return 1.0f / sqrtf(x.dot(x) / static_cast<float>(head_dim) + eps);
}

template <class L, class N>
__device__ Head<L> gain_of(const Rope<N>& rope, bool query, int lane) {
  Head<L> gain;
  gain.load(query ? rope.q_weight : rope.k_weight, lane, rope.head_dim / 2, true);
  gain.add(rope.weight_offset);
  return gain;
}

// Two heads of a row at a time, so that four loads are on their way and the angles are read half as often.
template <class N, class L, bool kNormed>
__global__ void __launch_bounds__(kThreads) rope_kernel(const Rope<N> rope, int width) {
  const Place<L> place(width);
  const int64_t row = int64_t{blockIdx.x} * place.rows_per_block + place.row;
  const bool active = place.row < place.rows_per_block && row < rope.rows;
  const int half = rope.head_dim / 2, lane = place.lane;
  const Head<L> angles = angles_of<L>(rope, row, lane, active);
  for (int first = place.group; first - place.group < rope.all_heads; first += 2 * place.groups) {
    const int heads[2] = {first, first + place.groups};
    Head<L> x[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      x[i].load(rope.in + row * rope.in_stride + heads[i] * rope.head_dim, lane, half,
                active && heads[i] < rope.all_heads);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (kNormed) {
        x[i].scale(rstd_of(x[i], rope.head_dim, rope.eps));
        x[i].multiply(gain_of<L>(rope, heads[i] < rope.heads, lane));
      }
      x[i].rotate(angles);
      if (active && heads[i] < rope.all_heads) {
        x[i].store(rope.out + row * rope.out_stride + heads[i] * rope.head_dim, lane, half);
      }
    }
  }
}

// The sum over the block of what each thread holds for its elements, to `out` (D). `shared` (kWarps, D).
template <class L>
__device__ void sum_over_block(Head<L>& sums, int lane, int head_dim, float (*shared)[kMaxHeadDim], float* out) {
  const int half = head_dim / 2, warp = threadIdx.x / cuda::kWarpSize;
#pragma unroll
  for (int offset = L::kLanes; offset < cuda::kWarpSize; offset *= 2) {
#pragma unroll
    for (int i = 0; i < L::kCount; ++i) {
      sums.low[i] += __shfl_xor_sync(0xffffffffu, sums.low[i], offset);
      sums.high[i] += __shfl_xor_sync(0xffffffffu, sums.high[i], offset);
    }
  }
  if (threadIdx.x % cuda::kWarpSize < L::kLanes) {
#pragma unroll
    for (int i = 0; i < L::kCount; ++i) {
      const int element = L::element(lane, i / L::kPack) + i % L::kPack;
      if (element >= half) continue;
      shared[warp][element] = sums.low[i];
      shared[warp][half + element] = sums.high[i];
    }
  }
  __syncthreads();
  for (int col = threadIdx.x; col < head_dim; col += kThreads) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += shared[w][col];
    out[col] = sum;
  }
  __syncthreads();
}

// dx = rstd * (g - n * mean(g * n)), n the normalised head, g = gain * dout rotated back; dweight = sum of n * that
// dout. A fixed grid: each block takes rows far apart and keeps the weights' gradients in registers. `rope.out` is din.
template <class N, class L>
__global__ void __launch_bounds__(kThreads, 3)
    normed_backward_kernel(const Rope<N> rope, const N* dout, int64_t dout_stride, int width, float* partials) {
  __shared__ float shared[kWarps][kMaxHeadDim];
  const Place<L> place(width);
  const int half = rope.head_dim / 2, lane = place.lane;
  Head<L> dq_weight, dk_weight;
  for (int i = 0; i < L::kCount; ++i) dq_weight.low[i] = dq_weight.high[i] = dk_weight.low[i] = dk_weight.high[i] = 0;
  const int64_t stride = int64_t{gridDim.x} * place.rows_per_block;
  for (int64_t first = int64_t{blockIdx.x} * place.rows_per_block; first < rope.rows; first += stride) {
    const int64_t row = first + place.row;
    const bool in_row = place.row < place.rows_per_block && row < rope.rows;
    const Head<L> angles = angles_of<L>(rope, row, lane, in_row);
    for (int offset = 0; offset < rope.all_heads; offset += place.groups) {
      const int head = offset + place.group;
      const bool active = in_row && head < rope.all_heads, query = head < rope.heads;
      Head<L> normal, grad;
      normal.load(rope.in + row * rope.in_stride + head * rope.head_dim, lane, half, active);
      grad.load(dout + row * dout_stride + head * rope.head_dim, lane, half, active);
      const float rstd = rstd_of(normal, rope.head_dim, rope.eps);
      normal.scale(rstd);
      grad.rotate(angles);
      if (active && query) dq_weight.add_product(grad, normal);
      if (active && !query) dk_weight.add_product(grad, normal);
      grad.multiply(gain_of<L>(rope, query, lane));
      const float mean = grad.dot(normal) / static_cast<float>(rope.head_dim);
#pragma unroll
      for (int i = 0; i < L::kCount; ++i) {
        grad.low[i] = rstd * fmaf(-normal.low[i], mean, grad.low[i]);
        grad.high[i] = rstd * fmaf(-normal.high[i], mean, grad.high[i]);
      }
      if (active) grad.store(rope.out + row * rope.out_stride + head * rope.head_dim, lane, half);
    }
  }
  float* mine = partials + int64_t{blockIdx.x} * rope.head_dim;
  sum_over_block(dq_weight, lane, rope.head_dim, shared, mine);
  sum_over_block(dk_weight, lane, rope.head_dim, shared, mine + int64_t{gridDim.x} * rope.head_dim);
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
          .rows = in.rows(),
          .heads = static_cast<int>(args.heads),
          .all_heads = static_cast<int>(args.heads + args.kv_heads),
          .head_dim = static_cast<int>(args.head_dim),
          .eps = args.eps,
          .weight_offset = args.weight_offset,
          .direction = direction};
}

// Calls run.template operator()<Layout>() with the layout for heads of this size: packs of kPack where every tensor
// allows them, else one element at a time on a whole warp.
template <int kPack, class Run>
void with_layout(int64_t head_dim, bool aligned, Run&& run) {
  if (head_dim > kMaxHeadDim) {
    throw Error(ExitCode::failure,
                fmt::format("RoPE on a GPU takes heads of at most {} elements, not {}", kMaxHeadDim, head_dim),
                "choose more heads or a smaller head size");
  }
  const int64_t half = head_dim / 2;
  if (!aligned || half % kPack != 0) return run.template operator()<Layout<1, 32, kMaxHeadDim / 64>>();
  const int64_t packs = half / kPack;
  if (packs <= 4) return run.template operator()<Layout<kPack, 4, 1>>();
  if (packs <= 8) return run.template operator()<Layout<kPack, 8, 1>>();
  if (packs <= 16) return run.template operator()<Layout<kPack, 16, 1>>();
  return run.template operator()<Layout<kPack, 32, 1>>();
}

// Whether rows of all these begin at packs of kPack elements; undefined ones do not matter.
template <class T, int kPack>
bool are_aligned(std::initializer_list<TensorView> views) {
  return std::all_of(views.begin(), views.end(), [](const TensorView& view) {
    return view.row_stride % kPack == 0 && reinterpret_cast<uintptr_t>(view.data) % (sizeof(T) * kPack) == 0;
  });
}

int row_width(int groups, int lanes) { return std::min(groups, kThreads / lanes) * lanes; }

template <class T, bool kNormed>
void rotate(ExecContext& ctx, const Rope<cuda::Native<T>>& rope, bool aligned) {
  if (rope.rows == 0) return;
  with_layout<16 / sizeof(T)>(rope.head_dim, aligned, [&]<class L>() {
    const int width = row_width((rope.all_heads + 1) / 2, L::kLanes), rows_per_block = kThreads / width;
    const auto blocks = static_cast<unsigned>((rope.rows + rows_per_block - 1) / rows_per_block);
    cuda::launch({blocks, kThreads, cuda::stream_of(ctx)}, rope_kernel<cuda::Native<T>, L, kNormed>, rope, width);
  });
}

}  // namespace

template <Device D, class T>
void rope_forward(ExecContext& ctx, const RopeArgs& args) {
  constexpr int kPack = 16 / sizeof(T);
  const auto rope = make_rope<T>(args, args.in, args.out, 1);
  const bool aligned = are_aligned<T, kPack>({args.in, args.out, args.q_weight, args.k_weight});
  return args.q_weight.defined() ? rotate<T, true>(ctx, rope, aligned) : rotate<T, false>(ctx, rope, aligned);
}

template <Device D, class T>
void rope_backward(ExecContext& ctx, const RopeGradArgs& args, const TensorView& partials) {
  using N = cuda::Native<T>;
  if (!partials.defined()) {
    constexpr int kPack = 16 / sizeof(T);
    const auto rope = make_rope<T>(args.forward, args.dout, args.din, -1);
    return rotate<T, false>(ctx, rope, are_aligned<T, kPack>({args.dout, args.din}));
  }
  // Two heads and four sums of a thread would not fit in its registers with 8 elements of each: 4, whatever the type.
  constexpr int kPack = 4;
  const RopeArgs& forward = args.forward;
  const auto rope = make_rope<T>(forward, forward.in, args.din, -1);
  const cudaStream_t stream = cuda::stream_of(ctx);
  const int64_t count = partials.shape[1];
  const bool aligned = are_aligned<T, kPack>({forward.in, args.dout, args.din, forward.q_weight, forward.k_weight});
  with_layout<kPack>(forward.head_dim, aligned, [&]<class L>() {
    cuda::launch({static_cast<unsigned>(count), kThreads, stream}, normed_backward_kernel<N, L>, rope,
                 cuda::native<T>(args.dout), args.dout.row_stride, row_width(rope.all_heads, L::kLanes),
                 partials.ptr<float>());
  });
  const auto pointer = [](const TensorView& view) { return view.defined() ? view.ptr<float>() : nullptr; };
  const float *dq_partials = partials.ptr<float>(), *dk_partials = dq_partials + count * forward.head_dim;
  cuda::add_partials(stream, count, forward.head_dim, {dq_partials, pointer(args.dq_weight), args.q_beta},
                     {dk_partials, pointer(args.dk_weight), args.k_beta});
}

template void rope_forward<Device::cuda, float>(ExecContext&, const RopeArgs&);
template void rope_forward<Device::cuda, Bf16>(ExecContext&, const RopeArgs&);
template void rope_forward<Device::cuda, Fp16>(ExecContext&, const RopeArgs&);
template void rope_backward<Device::cuda, float>(ExecContext&, const RopeGradArgs&, const TensorView&);
template void rope_backward<Device::cuda, Bf16>(ExecContext&, const RopeGradArgs&, const TensorView&);
template void rope_backward<Device::cuda, Fp16>(ExecContext&, const RopeGradArgs&, const TensorView&);

}  // namespace gradmill
