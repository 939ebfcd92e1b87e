// SPDX-License-Identifier: Apache-2.0
// Flash attention, backward, for sequences of up to 256 keys: a block owns all keys of a sequence and head and walks
// over tiles of its queries, so that weights and their gradients are computed once: five products instead of seven, one
// draw of dropout's bits, and no pass of its own for the sums of out * dout. Deterministic, without atomics.
// A warp owns two strips of 16 keys, one from either end: under a causal mask all have the same work. The gradients of
// a tile's scores go through shared memory to whoever sums a piece of dq; that is done a tile later, so that a tile
// needs one barrier. For 64 queries a warp reads 64 KB of shared memory for 320 mma: at 128 bytes and about 2600 FLOP a
// cycle both take about as long.
#include "cuda/launch.h"
#include "cuda/packed.cuh"
#include "cuda/reduce.cuh"
#include "ops/flash_dropout.cuh"
#include "ops/flash_gradient.cuh"
#include "ops/flash_launch.h"
#include "ops/flash_tile.cuh"

namespace gradmill::flash {
namespace {

constexpr int kWidth = 64, kMaxLen = 256, kTileQueries = 64, kThreads = 256;
constexpr int kStrips = 2, kStripKeys = 16;  // of a warp; of a strip
constexpr int kNs = kStep / 8;               // tiles of 8 queries of a step

// Where things lie in shared memory. Rows of `dscores` are keys, columns the queries of a tile.
struct ShortLayout {
  static constexpr uint32_t kKeyBytes = kMaxLen * kWidth * 2, kTileBytes = kTileQueries * kWidth * 2;
  static constexpr uint32_t kDscoreBytes = kMaxLen * kTileQueries * 2, kVectorBytes = kMaxLen * 4;
  static constexpr uint32_t kVectors = 2 * kKeyBytes + 4 * kTileBytes + 2 * kDscoreBytes;
  static constexpr uint32_t kRule = kVectors + 2 * kVectorBytes, kBytes = kRule + sizeof(Dropout);
  uint32_t base;

  __device__ uint32_t k() const { return base; }
  __device__ uint32_t v() const { return base + kKeyBytes; }
  __device__ uint32_t q(int tile) const { return base + 2 * kKeyBytes + tile % 2 * 2 * kTileBytes; }
  __device__ uint32_t dout(int tile) const { return q(tile) + kTileBytes; }
  __device__ uint32_t dscores(int tile) const {
    return base + 2 * kKeyBytes + 4 * kTileBytes + tile % 2 * kDscoreBytes;
  }
  __device__ uint32_t lse() const { return base + kVectors; }
  __device__ uint32_t delta() const { return lse() + kVectorBytes; }
};

// The same value, but what depends on it is computed where it is used and not kept in registers, which are scarce.
__device__ inline int afresh(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// The left operand of a product: strips of rows of a tile.
struct LeftStrips {
  uint32_t tile;
  LaneOffset<kWidth> lanes;
  const int (&rows)[kStrips];
  __device__ void get(int m, int k, uint32_t (&to)[4]) const {
    cuda::load_matrices(to, lanes.at(tile, rows[m], 2 * k));
  }
};

// lse, and delta = sum of out * dout, of all queries of one head: four lanes a row.
template <class N>
__device__ void load_vectors(const GradParams<N>& grad, const Sequence& seq, int head, const ShortLayout& at) {
  using Packed = cuda::Packed<N>;
  constexpr int kLanes = 4, kPacks = kWidth / kLanes / Packed::kSize, kRowsAtOnce = kThreads / kLanes;
  const Params<N>& p = grad.forward;
  const int lane = int(threadIdx.x) % kLanes, first = int(threadIdx.x) / kLanes;
#pragma unroll 2
  for (int row = first; row < first + kMaxLen; row += kRowsAtOnce) {
    const bool there = row < seq.q_len;
    const int column = head * p.head_dim;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int within = (i * kLanes + lane) * Packed::kSize;
      if (!there || within >= p.head_dim) continue;
      const auto out = Packed::load(p.out.at(seq.q_begin + row, column + within));
      const auto dout = Packed::load(grad.dout.at(seq.q_begin + row, column + within));
#pragma unroll
      for (int e = 0; e < Packed::kSize; ++e) sum = fmaf(out[e], dout[e], sum);
    }
    sum = cuda::warp_reduce<kLanes>(sum, cuda::Sum{});
    if (lane != 0) continue;
    const float lse = there ? p.lse[head * p.lse_stride + seq.q_begin + row] : 0;
    cuda::store_shared(at.lse() + row * 4, __float_as_uint(lse));
    cuda::store_shared(at.delta() + row * 4, __float_as_uint(sum));
  }
}

// Keys that the queries of a tile see, in whole strips.
__device__ inline Range strips_of(const Sequence& seq, int query) {
  const Range keys = seq.keys_of({query, query + kTileQueries});
  return {keys.begin / kStripKeys * kStripKeys, (keys.end + kStripKeys - 1) / kStripKeys * kStripKeys};
}

// This lane's part of the gradients of a strip's scores, of the queries from chunk `chunk` on.
__device__ inline void store_dscores(uint32_t to, int strip, int chunk, const uint32_t (&left)[kNs / 2][4]) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kNs * 2; ++i) {
    const uint32_t row = strip + lane / 4 + i % 2 * 8;
    cuda::store_shared(to + Tile<kTileQueries>::offset(row, chunk + i / 2) + lane % 4 * 4, left[i / 4][i % 4]);
  }
}

// dq of a tile's queries: a warp makes 16 queries x 32 columns.
template <class N>
__device__ void query_gradient(const GradParams<N>& grad, const Sequence& seq, int head, int tile,
                               const ShortLayout& at) {
  const Params<N>& p = grad.forward;
  const int thread = afresh(int(threadIdx.x)), warp = thread / 32, lane = thread % 32;
  const int block = warp % 4, chunk = warp / 4 * 4, query = tile * kTileQueries;
  const LaneOffset<kWidth> square = lanes_of_square<kWidth>();
  const LaneOffset<kTileQueries> pair = lanes_of_pair<kTileQueries>();
  const uint32_t dscores = at.dscores(tile);
  const Range keys = strips_of(seq, query);
  float dq[1][4][4] = {};
#pragma unroll 4
  for (int key = keys.begin; key < keys.end; key += kStripKeys) {
    uint32_t left[1][1][4];
    cuda::load_matrices_transposed(left[0][0], pair.at(dscores, key, 2 * block));
    multiply_add<N>(dq, left, at.k() + key * Tile<kWidth>::kRowBytes, square, chunk);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int n = i / 2, half = i % 2, row = query + block * 16 + lane / 4 + half * 8;
    const int column = (chunk + n) * 8 + lane % 4 * 2;
    if (row >= seq.q_len || column >= p.head_dim) continue;
    const uint32_t bits = cuda::pack_pair<N>(dq[0][n][2 * half] * p.scale, dq[0][n][2 * half + 1] * p.scale);
    *reinterpret_cast<uint32_t*>(grad.dq.at(seq.q_begin + row, head * p.head_dim + column)) = bits;
  }
}

template <class N>
__device__ void store_strip(uint32_t tile, int row, const float (&acc)[kWidth / 8][4], float factor,
                            const HeadRows<N>& to, const Params<N>& p, const Sequence& seq, int column) {
  if (row >= seq.k_len) return;
  float scaled[1][kWidth / 8][4];
#pragma unroll
  for (int i = 0; i < kWidth / 2; ++i) scaled[0][i / 4][i % 4] = acc[i / 4][i % 4] * factor;
  store_rows<kWidth>(tile, row, scaled, to.at(seq.k_begin + row, column), to.stride, seq.k_len - row, p.head_dim, true);
}

template <class N>
__global__ void __launch_bounds__(kThreads, 1) short_kernel(const GradParams<N> grad) {
  extern __shared__ uint4 shared[];
  const Params<N>& p = grad.forward;
  const int kv_heads = p.heads / p.group, kv_head = int(blockIdx.x) % kv_heads, column = kv_head * p.head_dim;
  const ShortLayout at{cuda::shared_address(shared)};
  const Sequence seq(p, int(blockIdx.x) / kv_heads);
  // Read again at every use: registers are scarce.
  Dropout* const rule = reinterpret_cast<Dropout*>(reinterpret_cast<char*>(shared) + ShortLayout::kRule);
  if (threadIdx.x == 0) *rule = Dropout(p);
  const int tiles = (seq.q_len + kTileQueries - 1) / kTileQueries;
  const int warp = int(threadIdx.x) / 32;
  const int strips[kStrips] = {warp * kStripKeys, kMaxLen - (warp + 1) * kStripKeys};
  const LaneOffset<kWidth> square = lanes_of_square<kWidth>(), pair = lanes_of_pair<kWidth>();
  const LeftStrips k{at.k(), square, strips}, v{at.v(), square, strips};
  float dk[kStrips][kWidth / 8][4] = {}, dv[kStrips][kWidth / 8][4] = {};

  const auto load_queries = [&](int head, int tile) {
    const int query = tile * kTileQueries, row = seq.q_begin + query, rows = seq.q_len - query;
    const int first = head * p.head_dim;
    load_tile<kWidth, kTileQueries, kThreads>(at.q(tile), p.q.at(row, first), p.q.stride, rows, p.head_dim, true);
    load_tile<kWidth, kTileQueries, kThreads>(at.dout(tile), static_cast<const N*>(grad.dout.at(row, first)),
                                              grad.dout.stride, rows, p.head_dim, true);
  };
  // A step: kStep queries of a tile and the first kMs strips of the warp.
  const auto step = [&]<int kMs>(int head, int tile, int query) {
    const Dropout dropout = *rule;
    int keys[kMs];
    uint32_t columns[kMs];
    bool all = true;
#pragma unroll
    for (int m = 0; m < kMs; ++m) {
      keys[m] = strips[m];
      columns[m] = static_cast<uint32_t>(head * p.dropout_columns + strips[m]);
      all = all && seq.sees_all({query, query + kStep}, {strips[m], strips[m] + kStripKeys});
    }
    const uint32_t keep = dropout.on() ? keep_key_rows<kNs>(dropout, seq.q_begin + query, columns) : ~0u;
    const int within = query % kTileQueries;
    const uint32_t q = at.q(tile) + within * Tile<kWidth>::kRowBytes, dout = q + ShortLayout::kTileBytes;
    const uint32_t lse = at.lse() + query * 4, delta = at.delta() + query * 4;
    float weights[kMs][kNs][4], dscores[kMs][kNs][4];
    multiply_transposed<N>(weights, k, q, pair);
    multiply_transposed<N>(dscores, v, dout, pair);
    const float scale2 = p.scale * kLog2E;
    if (all) {
      gradient_of_key_rows<false>(seq, query, keys, scale2, dropout.scale, keep, lse, delta, weights, dscores);
    } else {
      gradient_of_key_rows<true>(seq, query, keys, scale2, dropout.scale, keep, lse, delta, weights, dscores);
    }
    uint32_t left[kMs][kNs / 2][4];
    to_left<N>(weights, left);
    multiply_add<N>(dv, left, dout, square);
    to_left<N>(dscores, left);
#pragma unroll
    for (int m = 0; m < kMs; ++m) store_dscores(at.dscores(tile), strips[m], within / 8, left[m]);
    multiply_add<N>(dk, left, q, square);
  };

  load_tile<kWidth, kMaxLen, kThreads>(at.k(), p.k.at(seq.k_begin, column), p.k.stride, seq.k_len, p.head_dim, true);
  load_tile<kWidth, kMaxLen, kThreads>(at.v(), p.v.at(seq.k_begin, column), p.v.stride, seq.k_len, p.head_dim, true);
#pragma unroll 1
  for (int head = kv_head * p.group; head < (kv_head + 1) * p.group; ++head) {
    load_queries(head, 0);
    load_vectors(grad, seq, head, at);
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      cuda::wait_for_copies();
      __syncthreads();
      if (tile + 1 < tiles) load_queries(head, tile + 1);
      const Range seen = strips_of(seq, tile * kTileQueries);
#pragma unroll 1
      for (int query = tile * kTileQueries; query < (tile + 1) * kTileQueries; query += kStep) {
        bool live[kStrips];
#pragma unroll
        for (int m = 0; m < kStrips; ++m) {
          live[m] = seq.sees_any({query, query + kStep}, {strips[m], strips[m] + kStripKeys});
          // dq is summed over all strips that the tile sees.
          const bool summed = strips[m] >= seen.begin && strips[m] < seen.end;
          if (!live[m] && summed) store_dscores(at.dscores(tile), strips[m], query % kTileQueries / 8, {});
        }
        if (live[1]) {
          step.template operator()<2>(head, tile, query);
        } else if (live[0]) {
          step.template operator()<1>(head, tile, query);
        }
      }
      if (tile > 0) query_gradient(grad, seq, head, tile - 1, at);
    }
    cuda::wait_for_copies();
    __syncthreads();
    if (tiles > 0) query_gradient(grad, seq, head, tiles - 1, at);
  }
  // Nobody else reads a warp's rows of v.
#pragma unroll
  for (int m = 0; m < kStrips; ++m) {
    store_strip(at.v(), strips[m], dv[m], rule->scale, grad.dv, p, seq, column);
    store_strip(at.v(), strips[m], dk[m], p.scale, grad.dk, p, seq, column);
  }
}

// Data-centre GPUs have enough shared memory.
bool has_large_shared_memory(const ExecContext& ctx) {
  const int capability = ctx.cuda->compute_capability();
  return capability == 80 || capability == 87 || (capability >= 90 && capability < 120);
}

}  // namespace

template <class T>
bool short_backward(ExecContext& ctx, const AttentionGradArgs& args) {
  const AttentionArgs& forward = args.forward;
  const int64_t blocks = forward.kv_heads * forward.seq.max_seqs;
  const bool fits = forward.head_dim > kWidth / 2 && forward.head_dim <= kWidth && forward.seq.max_len <= kMaxLen;
  if (!fits || forward.q.rows() == 0 || forward.k.rows() == 0 || !has_large_shared_memory(ctx)) return false;
  // Heads of a group come one after the other: then there should be other blocks beside.
  if (forward.heads != forward.kv_heads && blocks < ctx.cuda->num_units()) return false;
  const auto p = make_params<T>(ctx, args, TensorView());
  if (!p.forward.vectors) return false;
  cuda::launch({dim3(unsigned(blocks)), kThreads, cuda::stream_of(ctx), ShortLayout::kBytes},
               short_kernel<cuda::Native<T>>, p);
  return true;
}

template bool short_backward<Bf16>(ExecContext&, const AttentionGradArgs&);
template bool short_backward<Fp16>(ExecContext&, const AttentionGradArgs&);

}  // namespace gradmill::flash
