// SPDX-License-Identifier: Apache-2.0
// Flash attention without matrix units: for exact fp32, and for all types on GPUs without suitable matrix units. It has
// the loops of attention_flash.cu and attention_flash_backward.cu, over tiles of 64 x 64. A product reads 32 bytes of
// shared memory for 16 FMA of a thread, so it reaches about half of the FMA rate.
#include "cuda/launch.h"
#include "ops/attention/flash_launch.h"
#include "ops/attention/flash_simt.cuh"

namespace gradmill::flash {
namespace {

template <class N, int kChunks>
__global__ void __launch_bounds__(kSimtThreads) simt_forward_kernel(const Params<N> p) {
  extern __shared__ SimtTile tiles[];  // two operands and the weights
  const int head = int(blockIdx.x) % p.heads, column = head / p.group * p.head_dim;
  const Sequence seq(p, int(blockIdx.x) / p.heads);
  const int query = int(gridDim.y - 1 - blockIdx.y) * kSide, queries = seq.q_len - query;
  if (queries <= 0) return;
  const N* q = p.q.at(seq.q_begin + query, head * p.head_dim);
  const float scale2 = p.scale * kLog2E;
  const Dropout dropout(p);
  const int row = query + 4 * tile_y();  // first row of this thread
  float out[kChunks][4][4] = {}, largest[4], total[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) largest[i] = -INFINITY;

  Range keys = seq.keys_of({query, min(query + kSide, seq.q_len)});
  keys.begin -= keys.begin % kSide;
  for (int key = keys.begin; key < keys.end; key += kSide) {
    const int key_row = seq.k_begin + key, rows = seq.k_len - key, first = key + 4 * tile_x();
    Block weights;
    multiply_heads(weights, tiles[0], tiles[1], q, p.q.stride, queries, p.k.at(key_row, column), p.k.stride, rows,
                   p.head_dim);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float highest = largest[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (!seq.sees(row + i, first + j)) weights[i][j] = -INFINITY;
        highest = fmaxf(highest, weights[i][j]);
      }
      highest = cuda::warp_reduce<16>(highest, cuda::Max{});
      // Without this, a query that has seen no key yet would subtract infinities.
      const float base = highest == -INFINITY ? 0 : highest * scale2;
      const float shrink = exp2f(fmaf(largest[i], scale2, -base));
      const uint32_t keep = keep_columns(dropout, seq.q_begin + row + i, uint32_t(head * p.dropout_columns + first));
      largest[i] = highest;
      total[i] *= shrink;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float weight = exp2f(fmaf(weights[i][j], scale2, -base));
        total[i] += weight;
        weights[i][j] = keep >> j & 1 ? weight : 0;
#pragma unroll
        for (int c = 0; c < kChunks; ++c) out[c][i][j] *= shrink;
      }
    }
    store_block<true>(tiles[2], weights);
    multiply_columns(out, tiles[2], tiles[1], p.v.at(key_row, column), p.v.stride, rows, p.head_dim);
  }

  float factors[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float sum = cuda::warp_reduce<16>(total[i], cuda::Sum{});
    factors[i] = sum == 0 ? 0 : dropout.scale / sum;
    if (tile_x() == 0 && row + i < seq.q_len) {
      p.lse[head * p.lse_stride + seq.q_begin + row + i] = sum == 0 ? 0 : fmaf(largest[i], p.scale, logf(sum));
    }
  }
  store_columns(out, factors, p.out.at(seq.q_begin + query, head * p.head_dim), p.out.stride, queries, p.head_dim);
}

// Computes the weights of a tile, dropped but not scaled, and the gradients of its scores without the factor `scale`.
template <class N>
__device__ void gradient_tile(const GradParams<N>& grad, const Sequence& seq, const Dropout& dropout, int head,
                              int query, int key, SimtTile* tiles, Block& weights, Block& dscores) {
  const Params<N>& p = grad.forward;
  const int query_row = seq.q_begin + query, key_row = seq.k_begin + key, column = head / p.group * p.head_dim;
  const int queries = seq.q_len - query, keys = seq.k_len - key, first = key + 4 * tile_x();
  multiply_heads(weights, tiles[0], tiles[1], p.q.at(query_row, head * p.head_dim), p.q.stride, queries,
                 p.k.at(key_row, column), p.k.stride, keys, p.head_dim);
  multiply_heads(dscores, tiles[0], tiles[1], static_cast<const N*>(grad.dout.at(query_row, head * p.head_dim)),
                 grad.dout.stride, queries, p.v.at(key_row, column), p.v.stride, keys, p.head_dim);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = query + 4 * tile_y() + i;
    const bool there = row < seq.q_len;
    const int64_t at = head * p.lse_stride + seq.q_begin + row;
    const float lse2 = there ? p.lse[at] * kLog2E : 0, delta = there ? grad.delta[at] : 0;
    const uint32_t keep = keep_columns(dropout, seq.q_begin + row, uint32_t(head * p.dropout_columns + first));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const bool visible = there && seq.sees(row, first + j), kept = keep >> j & 1;
      const float weight = visible ? exp2f(fmaf(weights[i][j], p.scale * kLog2E, -lse2)) : 0;
      dscores[i][j] = weight * ((kept ? dscores[i][j] * dropout.scale : 0) - delta);
      weights[i][j] = kept ? weight : 0;
    }
  }
}

template <class N, int kChunks>
__global__ void __launch_bounds__(kSimtThreads) simt_key_kernel(const GradParams<N> grad) {
  extern __shared__ SimtTile tiles[];
  const Params<N>& p = grad.forward;
  const int kv_heads = p.heads / p.group, kv_head = int(blockIdx.x) % kv_heads;
  const Sequence seq(p, int(blockIdx.x) / kv_heads);
  const int key = int(blockIdx.y) * kSide, keys = seq.k_len - key;
  if (keys <= 0) return;
  const Dropout dropout(p);
  float dk[kChunks][4][4] = {}, dv[kChunks][4][4] = {};
  Range queries = seq.queries_of({key, min(key + kSide, seq.k_len)});
  queries.begin -= queries.begin % kSide;
  for (int head = kv_head * p.group; head < (kv_head + 1) * p.group; ++head) {
    for (int query = queries.begin; query < queries.end; query += kSide) {
      Block weights, dscores;
      gradient_tile(grad, seq, dropout, head, query, key, tiles, weights, dscores);
      const int row = seq.q_begin + query, rows = seq.q_len - query;
      store_block<false>(tiles[2], weights);
      multiply_columns(dv, tiles[2], tiles[1], static_cast<const N*>(grad.dout.at(row, head * p.head_dim)),
                       grad.dout.stride, rows, p.head_dim);
      __syncthreads();
      store_block<false>(tiles[2], dscores);
      multiply_columns(dk, tiles[2], tiles[1], p.q.at(row, head * p.head_dim), p.q.stride, rows, p.head_dim);
    }
  }
  const float k_factors[4] = {p.scale, p.scale, p.scale, p.scale};
  const float v_factors[4] = {dropout.scale, dropout.scale, dropout.scale, dropout.scale};
  const int row = seq.k_begin + key, column = kv_head * p.head_dim;
  store_columns(dk, k_factors, grad.dk.at(row, column), grad.dk.stride, keys, p.head_dim);
  store_columns(dv, v_factors, grad.dv.at(row, column), grad.dv.stride, keys, p.head_dim);
}

template <class N, int kChunks>
__global__ void __launch_bounds__(kSimtThreads) simt_query_kernel(const GradParams<N> grad) {
  extern __shared__ SimtTile tiles[];
  const Params<N>& p = grad.forward;
  const int head = int(blockIdx.x) % p.heads;
  const Sequence seq(p, int(blockIdx.x) / p.heads);
  const int query = int(gridDim.y - 1 - blockIdx.y) * kSide, queries = seq.q_len - query;
  if (queries <= 0) return;
  const Dropout dropout(p);
  float dq[kChunks][4][4] = {};
  Range keys = seq.keys_of({query, min(query + kSide, seq.q_len)});
  keys.begin -= keys.begin % kSide;
  for (int key = keys.begin; key < keys.end; key += kSide) {
    Block weights, dscores;
    gradient_tile(grad, seq, dropout, head, query, key, tiles, weights, dscores);
    store_block<true>(tiles[2], dscores);
    multiply_columns(dq, tiles[2], tiles[1], p.k.at(seq.k_begin + key, head / p.group * p.head_dim), p.k.stride,
                     seq.k_len - key, p.head_dim);
  }
  const float factors[4] = {p.scale, p.scale, p.scale, p.scale};
  store_columns(dq, factors, grad.dq.at(seq.q_begin + query, head * p.head_dim), grad.dq.stride, queries, p.head_dim);
}

// Calls visit.operator()<kChunks>(), where kChunks is the number of chunks of 64 columns that cover the head.
template <class Visit>
void visit_chunks(int64_t head_dim, Visit&& visit) {
  if (head_dim <= kSide) return visit.template operator()<1>();
  if (head_dim <= 2 * kSide) return visit.template operator()<2>();
  visit.template operator()<4>();
}

cuda::LaunchConfig config(const ExecContext& ctx, const SeqLayout& seq, int64_t heads, int64_t rows) {
  const dim3 grid(unsigned(heads * seq.max_seqs), num_tiles(seq, rows, kSide));
  return {grid, kSimtThreads, cuda::stream_of(ctx), 3 * sizeof(SimtTile)};
}

}  // namespace

template <class T>
void simt_forward(ExecContext& ctx, const AttentionArgs& args) {
  visit_chunks(args.head_dim, [&]<int kChunks>() {
    cuda::launch(config(ctx, args.seq, args.heads, args.q.rows()), simt_forward_kernel<cuda::Native<T>, kChunks>,
                 make_params<T>(ctx, args));
  });
}

template <class T>
void simt_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& delta) {
  using N = cuda::Native<T>;
  const AttentionArgs& forward = args.forward;
  const auto p = make_params<T>(ctx, args, delta);
  visit_chunks(forward.head_dim, [&]<int kChunks>() {
    if (forward.k.rows() > 0) {
      cuda::launch(config(ctx, forward.seq, forward.kv_heads, forward.k.rows()), simt_key_kernel<N, kChunks>, p);
    }
    if (forward.q.rows() > 0) {
      cuda::launch(config(ctx, forward.seq, forward.heads, forward.q.rows()), simt_query_kernel<N, kChunks>, p);
    }
  });
}

template void simt_forward<float>(ExecContext&, const AttentionArgs&);
template void simt_forward<Bf16>(ExecContext&, const AttentionArgs&);
template void simt_forward<Fp16>(ExecContext&, const AttentionArgs&);
template void simt_backward<float>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void simt_backward<Bf16>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void simt_backward<Fp16>(ExecContext&, const AttentionGradArgs&, const TensorView&);

}  // namespace gradmill::flash
