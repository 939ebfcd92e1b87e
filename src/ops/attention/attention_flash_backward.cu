// SPDX-License-Identifier: Apache-2.0
// Flash attention, backward, without atomics. One kernel owns keys and loops over the queries that see them (of all
// heads that share the keys); the other owns queries and loops over keys. Both recompute weights and their gradients
// from the saved log-sum-exp. This takes seven GEMMs instead of five, but the results never depend on the order of
// blocks. Short sequences have a separate kernel: attention_flash_short.cu.
// With heads of 64, the kernel that owns keys reads 24 KB of shared memory per warp for 128 mma, and the kernel that
// owns queries 12 KB for 96. At 128 bytes and about 2600 FLOP per cycle both are bound by the matrix units, the first
// one only just.
#include "ops/attention/attention_flash.h"

#include "cuda/launch.h"
#include "cuda/reduce.cuh"
#include "ops/attention/flash_dropout.cuh"
#include "ops/attention/flash_gradient.cuh"
#include "ops/attention/flash_launch.h"
#include "ops/attention/flash_tile.cuh"

namespace gradmill {
namespace flash {
namespace {

template <int D>
struct BackwardShape {
  static constexpr int kMs = D <= 64 ? 2 : 1;  // tiles of 16 rows that a warp owns
  static constexpr int kThreads = D <= 192 ? 128 : 64, kRows = kThreads / 32 * kMs * 16;
  static constexpr uint32_t kOwnBytes = kRows * D * 2, kStepBytes = kStep * D * 2;
};
template <int D>
struct KeyShape : BackwardShape<D> {
  // For wider heads the accumulators of dk and dv do not fit, so a block computes half of the columns.
  static constexpr int kSlices = D <= 128 ? 1 : 2, kColumns = D / kSlices;
  static constexpr bool kHeld = D == 32;
  static constexpr uint32_t kStageBytes = 2 * BackwardShape<D>::kStepBytes + 2 * kStep * 4;  // q, dout, lse, delta
  static constexpr uint32_t kBytes = 2 * BackwardShape<D>::kOwnBytes + 2 * kStageBytes;
};
template <int D>
struct QueryShape : BackwardShape<D> {
  static constexpr bool kHeld = D <= 128;
  static constexpr uint32_t kStageBytes = 2 * BackwardShape<D>::kStepBytes;  // k, v
  static constexpr uint32_t kBytes = 2 * BackwardShape<D>::kOwnBytes + 2 * kStageBytes;
};

template <class N, int D, bool kDropout>
__global__ void __launch_bounds__(KeyShape<D>::kThreads) key_kernel(const GradParams<N> grad) {
  using Shape = KeyShape<D>;
  constexpr int kMs = Shape::kMs, kNs = kStep / 8, kThreads = Shape::kThreads, kColumns = Shape::kColumns;
  extern __shared__ uint4 shared[];
  const Params<N>& p = grad.forward;
  const int kv_heads = p.heads / p.group, slice = int(blockIdx.x) % Shape::kSlices;
  const int kv_head = int(blockIdx.x) / Shape::kSlices % kv_heads, column = kv_head * p.head_dim;
  const Sequence seq(p, int(blockIdx.x) / Shape::kSlices / kv_heads);
  const int block_key = int(blockIdx.y) * Shape::kRows;  // with a causal mask, early keys are seen by the most queries
  if (block_key >= seq.k_len) return;

  const uint32_t k_tile = cuda::shared_address(shared), v_tile = k_tile + Shape::kOwnBytes;
  const uint32_t stages = v_tile + Shape::kOwnBytes;
  Range queries = seq.queries_of({block_key, min(block_key + Shape::kRows, seq.k_len)});
  queries.begin -= queries.begin % kStep;
  // The heads of the group one after the other, each over all these queries.
  struct Step {
    int head, query;
  };
  const int end_head = (kv_head + 1) * p.group;
  const auto next = [&](Step step) {
    step.query += kStep;
    return step.query < queries.end ? step : Step{step.head + 1, queries.begin};
  };
  const auto load_queries = [&](Step step, int stage) {
    const uint32_t to = stages + stage * Shape::kStageBytes;
    const int row = seq.q_begin + step.query, rows = seq.q_len - step.query, first = step.head * p.head_dim;
    load_tile<D, kStep, kThreads>(to, p.q.at(row, first), p.q.stride, rows, p.head_dim, p.vectors);
    load_tile<D, kStep, kThreads>(to + Shape::kStepBytes, grad.dout.at(row, first), grad.dout.stride, rows, p.head_dim,
                                  p.vectors);
    if (threadIdx.x < 2 * kStep) {
      const int i = int(threadIdx.x) % kStep;
      const float* from = (threadIdx.x < kStep ? p.lse : grad.delta) + step.head * p.lse_stride + row;
      cuda::copy_async<4>(to + 2 * Shape::kStepBytes + threadIdx.x * 4, from + i, i < rows);
    }
  };
  const bool seen = queries.begin < queries.end;
  if (seen) {
    const int row = seq.k_begin + block_key, rows = seq.k_len - block_key;
    load_tile<D, Shape::kRows, kThreads>(k_tile, p.k.at(row, column), p.k.stride, rows, p.head_dim, p.vectors);
    load_tile<D, Shape::kRows, kThreads>(v_tile, p.v.at(row, column), p.v.stride, rows, p.head_dim, p.vectors);
    load_queries({kv_head * p.group, queries.begin}, 0);
  }

  const int tile_row = int(threadIdx.x) / 32 * kMs * 16, key = block_key + tile_row;
  const Dropout dropout(p);
  const LaneOffset<D> square = lanes_of_square<D>(), pair = lanes_of_pair<D>();
  LeftRows<D, kMs, Shape::kHeld> k(k_tile, tile_row), v(v_tile, tile_row);
  int strips[kMs];
#pragma unroll
  for (int m = 0; m < kMs; ++m) strips[m] = key + m * 16;
  float dk[kMs][kColumns / 8][4] = {}, dv[kMs][kColumns / 8][4] = {};
  int stage = 0;
#pragma unroll 1
  for (Step step{kv_head * p.group, queries.begin}; seen && step.head < end_head; step = next(step), stage ^= 1) {
    cuda::wait_for_copies();
    __syncthreads();
    if (Shape::kHeld && step.head == kv_head * p.group && step.query == queries.begin) k.hold(), v.hold();
    if (const Step following = next(step); following.head < end_head) load_queries(following, stage ^ 1);
    const int query = step.query;
    const Range mine{key, key + kMs * 16}, theirs{query, query + kStep};
    if (!seq.sees_any(theirs, mine)) continue;
    const uint32_t q_tile = stages + stage * Shape::kStageBytes, dout_tile = q_tile + Shape::kStepBytes;
    uint32_t keep = ~0u;
    if (kDropout && dropout.on()) {
      uint32_t columns[kMs];
#pragma unroll
      for (int m = 0; m < kMs; ++m) columns[m] = static_cast<uint32_t>(step.head * p.dropout_columns + strips[m]);
      keep = keep_key_rows<kNs>(dropout, seq.q_begin + query, columns);
    }
    float weights[kMs][kNs][4], dscores[kMs][kNs][4];
    multiply_transposed<N>(weights, k, q_tile, pair);
    multiply_transposed<N>(dscores, v, dout_tile, pair);
    const float keep_scale = kDropout ? dropout.scale : 1;
    const uint32_t lse = dout_tile + Shape::kStepBytes, delta = lse + kStep * 4;
    if (seq.sees_all(theirs, mine)) {
      gradient_of_key_rows<false>(seq, query, strips, p.scale * kLog2E, keep_scale, keep, lse, delta, weights, dscores);
    } else {
      gradient_of_key_rows<true>(seq, query, strips, p.scale * kLog2E, keep_scale, keep, lse, delta, weights, dscores);
    }
    uint32_t left[kMs][kNs / 2][4];
    to_left<N>(weights, left);
    multiply_add<N>(dv, left, dout_tile, square, slice * (kColumns / 8));
    to_left<N>(dscores, left);
    multiply_add<N>(dk, left, q_tile, square, slice * (kColumns / 8));
  }
  if (key >= seq.k_len) return;
  scale_all(dk, p.scale);
  scale_all(dv, dropout.scale);
  const int first = column + slice * kColumns, cols = p.head_dim - slice * kColumns, row = seq.k_begin + key;
  store_rows<D>(k_tile, tile_row, dk, grad.dk.at(row, first), grad.dk.stride, seq.k_len - key, cols, p.vectors);
  store_rows<D>(v_tile, tile_row, dv, grad.dv.at(row, first), grad.dv.stride, seq.k_len - key, cols, p.vectors);
}

template <class N, int D, bool kDropout>
__global__ void __launch_bounds__(QueryShape<D>::kThreads) query_kernel(const GradParams<N> grad) {
  using Shape = QueryShape<D>;
  constexpr int kMs = Shape::kMs, kNs = kStep / 8, kThreads = Shape::kThreads;
  extern __shared__ uint4 shared[];
  const Params<N>& p = grad.forward;
  const int head = int(blockIdx.x) % p.heads, column = head / p.group * p.head_dim;
  const Sequence seq(p, int(blockIdx.x) / p.heads);
  const int block_query = int(gridDim.y - 1 - blockIdx.y) * Shape::kRows;
  if (block_query >= seq.q_len) return;

  const uint32_t q_tile = cuda::shared_address(shared), dout_tile = q_tile + Shape::kOwnBytes;
  const uint32_t stages = dout_tile + Shape::kOwnBytes;
  const auto load_keys = [&](int key, int stage) {
    const uint32_t to = stages + stage * Shape::kStageBytes;
    const int row = seq.k_begin + key, rows = seq.k_len - key;
    load_tile<D, kStep, kThreads>(to, p.k.at(row, column), p.k.stride, rows, p.head_dim, p.vectors);
    load_tile<D, kStep, kThreads>(to + Shape::kStepBytes, p.v.at(row, column), p.v.stride, rows, p.head_dim, p.vectors);
  };
  Range keys = seq.keys_of({block_query, min(block_query + Shape::kRows, seq.q_len)});
  keys.begin -= keys.begin % kStep;
  if (keys.begin < keys.end) {
    const int row = seq.q_begin + block_query, rows = seq.q_len - block_query, first = head * p.head_dim;
    load_tile<D, Shape::kRows, kThreads>(q_tile, p.q.at(row, first), p.q.stride, rows, p.head_dim, p.vectors);
    load_tile<D, Shape::kRows, kThreads>(dout_tile, grad.dout.at(row, first), grad.dout.stride, rows, p.head_dim,
                                         p.vectors);
    load_keys(keys.begin, 0);
  }

  const int lane = int(threadIdx.x) % 32;
  const int tile_row = int(threadIdx.x) / 32 * kMs * 16, query = block_query + tile_row;
  float lse2[kMs][2], delta[kMs][2];
#pragma unroll
  for (int i = 0; i < 2 * kMs; ++i) {
    const int row = query + lane / 4 + i * 8;
    const int64_t at = head * p.lse_stride + seq.q_begin + row;
    lse2[i / 2][i % 2] = row < seq.q_len ? p.lse[at] * kLog2E : 0;
    delta[i / 2][i % 2] = row < seq.q_len ? grad.delta[at] : 0;
  }
  const Dropout dropout(p);
  const auto dropout_column = static_cast<uint32_t>(head * p.dropout_columns);
  const LaneOffset<D> square = lanes_of_square<D>(), pair = lanes_of_pair<D>();
  LeftRows<D, kMs, Shape::kHeld> q(q_tile, tile_row), dout(dout_tile, tile_row);
  float dq[kMs][D / 8][4] = {};
  int stage = 0;
#pragma unroll 1
  for (int key = keys.begin; key < keys.end; key += kStep, stage ^= 1) {
    cuda::wait_for_copies();
    __syncthreads();
    if (key == keys.begin) q.hold(), dout.hold();
    if (key + kStep < keys.end) load_keys(key + kStep, stage ^ 1);
    const Range mine{query, query + kMs * 16}, theirs{key, key + kStep};
    if (!seq.sees_any(mine, theirs)) continue;
    const uint32_t k_tile = stages + stage * Shape::kStageBytes;
    uint32_t keep[kMs];
#pragma unroll
    for (int m = 0; m < kMs; ++m) {
      keep[m] = ~0u;
      if (kDropout && dropout.on()) {
        keep[m] = keep_query_rows<kNs>(dropout, seq.q_begin + query + m * 16, dropout_column + key);
      }
    }
    float scores[kMs][kNs][4], dscores[kMs][kNs][4];
    multiply_transposed<N>(scores, q, k_tile, pair);
    multiply_transposed<N>(dscores, dout, k_tile + Shape::kStepBytes, pair);
    const float keep_scale = kDropout ? dropout.scale : 1;
    if (seq.sees_all(mine, theirs)) {
      gradient_of_query_rows<false>(seq, query, key, p.scale * kLog2E, keep_scale, keep, lse2, delta, scores, dscores);
    } else {
      gradient_of_query_rows<true>(seq, query, key, p.scale * kLog2E, keep_scale, keep, lse2, delta, scores, dscores);
    }
    uint32_t left[kMs][kNs / 2][4];
    to_left<N>(dscores, left);
    multiply_add<N>(dq, left, k_tile, square);
  }
  if (query >= seq.q_len) return;
  scale_all(dq, p.scale);
  store_rows<D>(q_tile, tile_row, dq, grad.dq.at(seq.q_begin + query, head * p.head_dim), grad.dq.stride,
                seq.q_len - query, p.head_dim, p.vectors);
}

// delta = sum of out * dout over a head: eight lanes per row and head, memory-bound.
template <class N>
__global__ void delta_kernel(const GradParams<N> grad, int64_t rows) {
  constexpr int kLanes = 8, kPack = 16 / sizeof(N);
  const Params<N>& p = grad.forward;
  const int64_t index = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes, row = index / p.heads;
  const int head = int(index % p.heads), lane = int(threadIdx.x) % kLanes;
  float sum = 0;
  if (row < rows) {
    const N *out = p.out.at(int(row), head * p.head_dim), *dout = grad.dout.at(int(row), head * p.head_dim);
    if (p.vectors) {
      for (int i = lane * kPack; i < p.head_dim; i += kLanes * kPack) {
        const auto a = cuda::Pack<N>::load(out + i), b = cuda::Pack<N>::load(dout + i);
#pragma unroll
        for (int e = 0; e < kPack; ++e) sum = fmaf(a[e], b[e], sum);
      }
    } else {
      for (int i = lane; i < p.head_dim; i += kLanes) sum = fmaf(cuda::to_float(out[i]), cuda::to_float(dout[i]), sum);
    }
  }
  sum = cuda::warp_reduce<kLanes>(sum, cuda::Sum{});
  if (row < rows && lane == 0) grad.delta[head * p.lse_stride + row] = sum;
}

template <class T, int D, bool kDropout>
void launch_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& delta) {
  const AttentionArgs& forward = args.forward;
  using N = cuda::Native<T>;
  using Keys = KeyShape<D>;
  using Queries = QueryShape<D>;
  const auto p = make_params<T>(ctx, args, delta);
  const int64_t seqs = forward.seq.max_seqs;
  if (forward.k.rows() > 0) {
    const dim3 keys(unsigned(forward.kv_heads * seqs * Keys::kSlices),
                    num_tiles(forward.seq, forward.k.rows(), Keys::kRows));
    cuda::launch({keys, Keys::kThreads, cuda::stream_of(ctx), Keys::kBytes}, key_kernel<N, D, kDropout>, p);
  }
  if (forward.q.rows() == 0) return;
  const dim3 queries(unsigned(forward.heads * seqs), num_tiles(forward.seq, forward.q.rows(), Queries::kRows));
  cuda::launch({queries, Queries::kThreads, cuda::stream_of(ctx), Queries::kBytes}, query_kernel<N, D, kDropout>, p);
}

}  // namespace

template <class T>
void sum_outputs(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& delta) {
  constexpr int kThreads = 256;
  const int64_t rows = args.forward.q.rows(), threads = rows * args.forward.heads * 8;
  cuda::launch({dim3(unsigned((threads + kThreads - 1) / kThreads)), kThreads, cuda::stream_of(ctx)},
               delta_kernel<cuda::Native<T>>, make_params<T>(ctx, args, delta), rows);
}

template void sum_outputs<float>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void sum_outputs<Bf16>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void sum_outputs<Fp16>(ExecContext&, const AttentionGradArgs&, const TensorView&);

}  // namespace flash

int64_t flash_backward_scratch(const AttentionGradArgs& args) { return args.forward.lse.numel(); }

bool flash_backward_can_overwrite(ExecContext& ctx, const AttentionGradArgs& args) {
  return flash::short_backward_can_overwrite(ctx, args);
}

template <class T>
void flash_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& scratch) {
  const AttentionArgs& forward = args.forward;
  const SeqLayout& seq = forward.seq;
  if (flash::has_padding(seq, forward.q.rows()) || flash::has_padding(seq, forward.k.rows())) {
    const auto *q_end = seq.cu_q.ptr<int32_t>() + seq.max_seqs, *k_end = seq.cu_kv.ptr<int32_t>() + seq.max_seqs;
    flash::clear_padding(
        ctx, {flash::padding_of(args.dq, q_end), flash::padding_of(args.dk, k_end), flash::padding_of(args.dv, k_end)});
  }
  if (seq.max_seqs == 0) return;
  if constexpr (!std::is_same_v<T, float>) {
    if (flash::short_backward<T>(ctx, args)) return;
  }
  if (forward.q.rows() > 0) flash::sum_outputs<T>(ctx, args, scratch);
  flash::visit_width(forward.head_dim, [&]<int D>() {
    if constexpr (!std::is_same_v<T, float>) {
      if (flash::has_matrix_units<T>(ctx, std::max(flash::KeyShape<D>::kBytes, flash::QueryShape<D>::kBytes))) {
        if constexpr (flash::kHasPlainKernel<D>) {
          if (!forward.dropout) return flash::launch_backward<T, D, false>(ctx, args, scratch);
        }
        return flash::launch_backward<T, D, true>(ctx, args, scratch);
      }
    }
    flash::simt_backward<T>(ctx, args, scratch);
  });
}

template void flash_backward<float>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void flash_backward<Bf16>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void flash_backward<Fp16>(ExecContext&, const AttentionGradArgs&, const TensorView&);

}  // namespace gradmill
