// SPDX-License-Identifier: Apache-2.0
// Disentangled attention without matrix units: for exact fp32, and for all types on GPUs without suitable matrix units.
// It has the loops of disentangled_forward_cuda.cu and disentangled_backward_cuda.cu. A window is processed in two
// halves of 64 distances, so that three tiles of shared memory are enough for every product.
#include "cuda/launch.h"
#include "ops/disentangled/disentangled_cuda.h"
#include "ops/disentangled/disentangled_params.cuh"
#include "ops/attention/flash_simt.cuh"

namespace gradmill::disentangled {
namespace {

static_assert(kSide == kTile);

template <class N>
struct Rows {
  const N* data;
  int64_t stride;
  int count;
};

// Loads the rows of a position table for distances 64 * half .. of a tile's window. The tile's first query is `ahead`
// of its first key.
template <class N>
struct WindowRows {
  const PositionParams<N>& p;
  const HeadRows<const N>& table;
  int column, ahead;

  template <bool kTransposed>
  __device__ void load(SimtTile& to, int half, int col) const {
#pragma unroll 4
    for (int i = int(threadIdx.x); i < kSide * kSide; i += kSimtThreads) {
      const int row = i / kSide, at = col + i % kSide;
      const int bucket = p.bucket(ahead + half * kSide + row - (kSide - 1));
      const float value = at < p.content.head_dim ? cuda::to_float(*table.at(bucket, column + at)) : 0;
      to.values[kTransposed ? i % kSide * kPitch + row : row * kPitch + i % kSide] = value;
    }
  }
};

// tiles[2] (64 rows, 64 distances) = rows · windowᵀ.
template <class N>
__device__ void multiply_window(SimtTile* tiles, const Rows<N>& rows, const WindowRows<N>& window, int half,
                                int head_dim) {
  Block products = {};
  for (int col = 0; col < head_dim; col += kSide) {
    __syncthreads();
    load_simt<true>(tiles[0], rows.data + col, rows.stride, rows.count, head_dim - col);
    window.template load<true>(tiles[1], half, col);
    __syncthreads();
    multiply_simt(products, tiles[0], tiles[1], min(kSide, head_dim - col));
  }
  store_block<false>(tiles[2], products);
  __syncthreads();
}

// acc[c] += leftᵀ · chunk c of the window's columns.
template <int kChunks, class N>
__device__ void multiply_columns(float (&acc)[kChunks][4][4], const SimtTile& left, SimtTile& right,
                                 const WindowRows<N>& window, int half) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    __syncthreads();
    window.template load<false>(right, half, c * kSide);
    __syncthreads();
    multiply_simt(acc[c], left, right, kSide);
  }
}
using flash::multiply_columns;

// A tile of one head. Queries and keys are counted from the first of the sequence.
template <class N>
struct Pairs {
  const PositionParams<N>& p;
  const Sequence& seq;
  int head, query, key;

  __device__ int column() const { return head * p.content.head_dim; }
  __device__ Rows<N> q() const { return rows(p.content.q, query); }
  __device__ Rows<N> k() const { return rows(p.content.k, key); }
  __device__ WindowRows<N> pos_k() const { return {p, p.pos_k, column(), query - key}; }
  __device__ WindowRows<N> pos_q() const { return {p, p.pos_q, column(), query - key}; }
  __device__ Rows<N> rows(const HeadRows<const N>& of, int first) const {
    return {of.at(seq.q_begin + first, column()), of.stride, seq.q_len - first};
  }
};

// The row of the window for this thread's pair (i, j).
__device__ inline int window_row(int i, int j) { return 4 * tile_y() + i - (4 * tile_x() + j) + kSide - 1; }

// The scores without the factor `scale`.
template <class N>
__device__ void tile_scores(Block& scores, SimtTile* tiles, const Pairs<N>& at) {
  const int head_dim = at.p.content.head_dim;
  const Rows<N> q = at.q(), k = at.k();
  multiply_heads(scores, tiles[0], tiles[1], q.data, q.stride, q.count, k.data, k.stride, k.count, head_dim);
  const auto add = [&](const Rows<N>& rows, const WindowRows<N>& window, bool by_key) {
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      multiply_window(tiles, rows, window, half, head_dim);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int row = window_row(i, j) - half * kSide, own = by_key ? 4 * tile_x() + j : 4 * tile_y() + i;
          if (row >= 0 && row < kSide) scores[i][j] += tiles[2].values[own * kPitch + row];
        }
      }
    }
  };
  if (at.p.pos_k.data != nullptr) add(q, at.pos_k(), false);
  if (at.p.pos_q.data != nullptr) add(k, at.pos_q(), true);
  __syncthreads();
}

template <class N, int kChunks>
__global__ void __launch_bounds__(kSimtThreads) forward_kernel(const PositionParams<N> params) {
  extern __shared__ SimtTile tiles[];  // two operands and a product
  const Params<N>& p = params.content;
  const int head = int(blockIdx.x) % p.heads, column = head * p.head_dim;
  const Sequence seq(p, int(blockIdx.x) / p.heads);
  const int query = int(blockIdx.y) * kSide, queries = seq.q_len - query;
  if (queries <= 0) return;
  const float scale2 = p.scale * kLog2E;
  const Dropout dropout(p);
  const int row = query + 4 * tile_y();  // first row of this thread
  float out[kChunks][4][4] = {}, largest[4], total[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) largest[i] = -INFINITY;
  for (int key = 0; key < seq.k_len; key += kSide) {
    const int first = key + 4 * tile_x();
    Block weights;
    tile_scores(weights, tiles, Pairs<N>{params, seq, head, query, key});
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float highest = largest[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (first + j >= seq.k_len) weights[i][j] = -INFINITY;
        highest = fmaxf(highest, weights[i][j]);
      }
      highest = cuda::warp_reduce<16>(highest, cuda::Max{});
      const float shrink = exp2f((largest[i] - highest) * scale2);
      const uint32_t keep = keep_columns(dropout, seq.q_begin + row + i, uint32_t(head * p.dropout_columns + first));
      largest[i] = highest;
      total[i] *= shrink;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float weight = exp2f((weights[i][j] - highest) * scale2);
        total[i] += weight;
        weights[i][j] = keep >> j & 1 ? weight : 0;
#pragma unroll
        for (int c = 0; c < kChunks; ++c) out[c][i][j] *= shrink;
      }
    }
    store_block<true>(tiles[2], weights);
    multiply_columns(out, tiles[2], tiles[1], p.v.at(seq.k_begin + key, column), p.v.stride, seq.k_len - key,
                     p.head_dim);
  }

  float factors[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float sum = cuda::warp_reduce<16>(total[i], cuda::Sum{});
    factors[i] = dropout.scale / sum;
    if (tile_x() == 0 && row + i < seq.q_len) {
      p.lse[head * p.lse_stride + seq.q_begin + row + i] = fmaf(largest[i], p.scale, logf(sum));
    }
  }
  store_columns(out, factors, p.out.at(seq.q_begin + query, column), p.out.stride, queries, p.head_dim);
}

// Computes the weights of a tile, dropped but not scaled, and the gradients of its scores without the factor `scale`.
template <class N>
__device__ void tile_gradient(const PositionGradParams<N>& grad, const Pairs<N>& at, const Dropout& dropout,
                              SimtTile* tiles, Block& weights, Block& dscores) {
  const Params<N>& p = grad.forward.content;
  const Rows<N> dout = at.rows(grad.dout, at.query), v = at.rows(p.v, at.key);
  tile_scores(weights, tiles, at);
  multiply_heads(dscores, tiles[0], tiles[1], dout.data, dout.stride, dout.count, v.data, v.stride, v.count,
                 p.head_dim);
  const int first = at.key + 4 * tile_x();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = at.query + 4 * tile_y() + i;
    const bool there = row < at.seq.q_len;
    const int64_t index = at.head * p.lse_stride + at.seq.q_begin + row;
    const float lse2 = there ? p.lse[index] * kLog2E : 0, delta = there ? grad.delta[index] : 0;
    const uint32_t keep = keep_columns(dropout, at.seq.q_begin + row, uint32_t(at.head * p.dropout_columns + first));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const bool visible = there && first + j < at.seq.k_len, kept = keep >> j & 1;
      const float weight = visible ? exp2f(fmaf(weights[i][j], p.scale * kLog2E, -lse2)) : 0;
      dscores[i][j] = weight * ((kept ? dscores[i][j] * dropout.scale : 0) - delta);
      weights[i][j] = kept ? weight : 0;
    }
  }
  __syncthreads();
}

// Stores the gradients of half of the distances as a tile. Rows are queries or keys and columns are distances, or vice
// versa.
template <bool kByKey, bool kDistanceRows>
__device__ void skew(SimtTile& to, const Block& dscores, int half) {
  __syncthreads();
  for (int i = int(threadIdx.x); i < kSide * kPitch; i += kSimtThreads) to.values[i] = 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int distance = window_row(i, j) - half * kSide, own = kByKey ? 4 * tile_x() + j : 4 * tile_y() + i;
      if (distance < 0 || distance >= kSide) continue;
      to.values[kDistanceRows ? distance * kPitch + own : own * kPitch + distance] = dscores[i][j];
    }
  }
}

template <class N, int kChunks>
__global__ void __launch_bounds__(kSimtThreads) key_kernel(const PositionGradParams<N> grad) {
  extern __shared__ SimtTile tiles[];
  const Params<N>& p = grad.forward.content;
  const int head = int(blockIdx.x) % p.heads, key = int(blockIdx.y) * kSide;
  const Sequence seq(p, int(blockIdx.x) / p.heads);
  if (key >= seq.k_len) return;
  const Dropout dropout(p);
  float dk[kChunks][4][4] = {}, dv[kChunks][4][4] = {};
  for (int query = 0; query < seq.q_len; query += kSide) {
    const Pairs<N> at{grad.forward, seq, head, query, key};
    Block weights, dscores;
    tile_gradient(grad, at, dropout, tiles, weights, dscores);
    const Rows<N> q = at.q(), dout = at.rows(grad.dout, query);
    store_block<false>(tiles[2], weights);
    multiply_columns(dv, tiles[2], tiles[1], dout.data, dout.stride, dout.count, p.head_dim);
    __syncthreads();
    store_block<false>(tiles[2], dscores);
    multiply_columns(dk, tiles[2], tiles[1], q.data, q.stride, q.count, p.head_dim);
    if (grad.forward.pos_q.data == nullptr) continue;
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      skew<true, true>(tiles[2], dscores, half);
      multiply_columns(dk, tiles[2], tiles[1], at.pos_q(), half);
    }
  }
  const float k_factors[4] = {p.scale, p.scale, p.scale, p.scale};
  const float v_factors[4] = {dropout.scale, dropout.scale, dropout.scale, dropout.scale};
  const int row = seq.k_begin + key, column = head * p.head_dim;
  store_columns(dk, k_factors, grad.dk.at(row, column), grad.dk.stride, seq.k_len - key, p.head_dim);
  store_columns(dv, v_factors, grad.dv.at(row, column), grad.dv.stride, seq.k_len - key, p.head_dim);
}

template <class N, int kChunks>
__global__ void __launch_bounds__(kSimtThreads) query_kernel(const PositionGradParams<N> grad) {
  extern __shared__ SimtTile tiles[];
  const Params<N>& p = grad.forward.content;
  const int head = int(blockIdx.x) % p.heads, query = int(blockIdx.y) * kSide;
  const Sequence seq(p, int(blockIdx.x) / p.heads);
  if (query >= seq.q_len) return;
  const Dropout dropout(p);
  float dq[kChunks][4][4] = {};
  for (int key = 0; key < seq.k_len; key += kSide) {
    const Pairs<N> at{grad.forward, seq, head, query, key};
    Block weights, dscores;
    tile_gradient(grad, at, dropout, tiles, weights, dscores);
    const Rows<N> k = at.k();
    store_block<true>(tiles[2], dscores);
    multiply_columns(dq, tiles[2], tiles[1], k.data, k.stride, k.count, p.head_dim);
    if (grad.forward.pos_k.data == nullptr) continue;
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      skew<false, true>(tiles[2], dscores, half);
      multiply_columns(dq, tiles[2], tiles[1], at.pos_k(), half);
    }
  }
  const float factors[4] = {p.scale, p.scale, p.scale, p.scale};
  store_columns(dq, factors, grad.dq.at(seq.q_begin + query, head * p.head_dim), grad.dq.stride, seq.q_len - query,
                p.head_dim);
}

// Sums one table over half of a diagonal's distances and one chunk of the sequences.
template <class N, int kChunks, bool kQueries>
__device__ void sum_diagonal(const PositionGradParams<N>& grad, SimtTile* tiles, int head, int rank, int chunk,
                             int half) {
  const Params<N>& p = grad.forward.content;
  const Dropout dropout(p);
  const int diagonal = diagonal_of(rank);
  float sum[kChunks][4][4] = {};
  for (int index = chunk * grad.group; index < min((chunk + 1) * grad.group, grad.seqs); ++index) {
    const Sequence seq(p, index);
    const int last = seq.q_len - max(diagonal, 0) * kSide;
    for (int key = max(-diagonal, 0) * kSide; key < min(seq.k_len, last); key += kSide) {
      const Pairs<N> at{grad.forward, seq, head, key + diagonal * kSide, key};
      Block weights, dscores;
      tile_gradient(grad, at, dropout, tiles, weights, dscores);
      const Rows<N> rows = kQueries ? at.k() : at.q();
      skew<kQueries, false>(tiles[2], dscores, half);
      multiply_columns(sum, tiles[2], tiles[1], rows.data, rows.stride, rows.count, p.head_dim);
    }
  }
  const float ones[4] = {1, 1, 1, 1};
  float* to = grad.partial(head, rank, chunk, kQueries ? 1 : 0) + half * kSide * p.head_dim;
  store_columns(sum, ones, to, p.head_dim, kSide, p.head_dim);
}

template <class N, int kChunks>
__global__ void __launch_bounds__(kSimtThreads) table_sums_kernel(const PositionGradParams<N> grad) {
  extern __shared__ SimtTile tiles[];
  const int heads = grad.forward.content.heads, head = int(blockIdx.x) % heads, rank = int(blockIdx.x) / heads;
  const int half = int(blockIdx.z) % 2;
  if (blockIdx.z < 2) {
    if (grad.forward.pos_k.data == nullptr) return;
    sum_diagonal<N, kChunks, false>(grad, tiles, head, rank, int(blockIdx.y), half);
  } else {
    if (grad.forward.pos_q.data == nullptr) return;
    sum_diagonal<N, kChunks, true>(grad, tiles, head, rank, int(blockIdx.y), half);
  }
}

// Calls visit.operator()<kChunks>(), where kChunks is the number of chunks of 64 columns that cover the head.
template <class Visit>
void visit_chunks(int64_t head_dim, Visit&& visit) {
  if (head_dim <= kSide) return visit.template operator()<1>();
  if (head_dim <= 2 * kSide) return visit.template operator()<2>();
  visit.template operator()<4>();
}

cuda::LaunchConfig config(const ExecContext& ctx, dim3 grid) {
  return {grid, kSimtThreads, cuda::stream_of(ctx), 3 * sizeof(SimtTile)};
}

}  // namespace

template <class T>
void simt_forward(ExecContext& ctx, const DisentangledAttentionArgs& args) {
  const AttentionArgs& content = args.content;
  const dim3 grid(unsigned(content.heads * content.seq.max_seqs), num_tiles(content.seq, content.q.rows(), kSide));
  visit_chunks(content.head_dim, [&]<int kChunks>() {
    cuda::launch(config(ctx, grid), forward_kernel<cuda::Native<T>, kChunks>, make_params<T>(ctx, args));
  });
}

template <class T>
void simt_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args, const TensorView& delta,
                   const TensorView& partials) {
  using N = cuda::Native<T>;
  const auto p = make_params<T>(ctx, args, delta, partials);
  const int64_t heads = p.forward.content.heads;
  const dim3 grid(unsigned(heads * p.seqs), unsigned(p.tiles));
  const dim3 tables(unsigned(heads * p.diagonals), unsigned(p.chunks), 4);
  visit_chunks(args.forward.content.head_dim, [&]<int kChunks>() {
    cuda::launch(config(ctx, grid), key_kernel<N, kChunks>, p);
    cuda::launch(config(ctx, grid), query_kernel<N, kChunks>, p);
    cuda::launch(config(ctx, tables), table_sums_kernel<N, kChunks>, p);
  });
}

template void simt_forward<float>(ExecContext&, const DisentangledAttentionArgs&);
template void simt_forward<Bf16>(ExecContext&, const DisentangledAttentionArgs&);
template void simt_forward<Fp16>(ExecContext&, const DisentangledAttentionArgs&);
template void simt_backward<float>(ExecContext&, const DisentangledAttentionGradArgs&, const TensorView&,
                                   const TensorView&);
template void simt_backward<Bf16>(ExecContext&, const DisentangledAttentionGradArgs&, const TensorView&,
                                  const TensorView&);
template void simt_backward<Fp16>(ExecContext&, const DisentangledAttentionGradArgs&, const TensorView&,
                                  const TensorView&);

}  // namespace gradmill::disentangled
