// SPDX-License-Identifier: Apache-2.0
// Disentangled attention, backward, without atomics. Some blocks own a tile of keys and loop over queries; some own
// queries and loop over keys; and some own a diagonal of tiles, whose pairs all have the same 127 distances, and loop
// over sequences. All recompute weights and their gradients. They run in one launch, so that one kind fills the gaps of
// another; blocks with the most work start first. A tile takes a warp 250 (keys), 220 (queries) or 220 mma (diagonals),
// each about 1500 cycles of its matrix unit, and about 350 KB of shared memory traffic for four warps (2700 cycles). 24
// x 256 tokens with 12 heads of 64 are 4608 tiles of each kind: at best about 170 microseconds on an H200.
#include "cuda/launch.h"
#include "ops/disentangled/disentangled_cuda.h"
#include "ops/disentangled/disentangled_gradient.cuh"

namespace gradmill::disentangled {

template <int D>
struct GradientBytes : TileBytes<D> {
  using TileBytes<D>::kRows;
  using TileBytes<D>::kRing;
  static constexpr uint32_t kWeights = kTile * kTile * 2;
  static constexpr uint32_t kWindows = 4 * kRows, kScratch = kWindows + 2 * kRing;
  // Contains the weights, and the gradients of scores by key; or the gradients by query and by key.
  static constexpr uint32_t kScratchBytes = 2 * kWeights + kSkewBytes, kAll = kScratch + kScratchBytes;
  static_assert(kScratchBytes >= kProductBytes && kScratchBytes >= 2 * kSkewBytes &&
                kScratchBytes >= 4 * kStrip * D * 2);
};

namespace {

template <int D>
__device__ TileOperands<D> operands(const void* shared) {
  using Bytes = GradientBytes<D>;
  const uint32_t base = cuda::shared_address(shared);
  return {base,
          base + Bytes::kRows,
          base + 2 * Bytes::kRows,
          base + 3 * Bytes::kRows,
          base + Bytes::kScratch,
          {base + Bytes::kWindows},
          {base + Bytes::kWindows + Bytes::kRing}};
}

template <int D, class N>
__device__ void load_queries(const PositionGradParams<N>& grad, const Sequence& seq, int head, int query,
                             const TileOperands<D>& at) {
  const Params<N>& p = grad.forward.content;
  load_rows<D>(at.q, p.q, seq, query, head * p.head_dim, p.head_dim);
  load_rows<D>(at.dout, grad.dout, seq, query, head * p.head_dim, p.head_dim);
}
template <int D, class N>
__device__ void load_keys(const PositionGradParams<N>& grad, const Sequence& seq, int head, int key,
                          const TileOperands<D>& at) {
  const Params<N>& p = grad.forward.content;
  load_rows<D>(at.k, p.k, seq, key, head * p.head_dim, p.head_dim);
  load_rows<D>(at.v, p.v, seq, key, head * p.head_dim, p.head_dim);
}
template <int kRows, int D, class N>
__device__ void load_windows(const PositionGradParams<N>& grad, int head, int ahead, int begin,
                             const TileOperands<D>& at) {
  const PositionParams<N>& p = grad.forward;
  load_window<kRows>(at.window_k, p, p.pos_k, head * p.content.head_dim, ahead, begin);
  load_window<kRows>(at.window_q, p, p.pos_q, head * p.content.head_dim, ahead, begin);
}

template <int D, class N>
__device__ void store_strip(float (&acc)[1][D / 8][4], float factor, const HeadRows<N>& to, const Params<N>& p,
                            const Sequence& seq, int head, int row, uint32_t scratch) {
  scale_all(acc, factor);
  store_rows<D>(scratch + warp_index() * kStrip * D * 2, 0, acc, to.at(seq.q_begin + row, head * p.head_dim), to.stride,
                seq.q_len - row, p.head_dim, true);
}

// Computes dk and dv for a tile of keys.
template <class N, int D, bool kDropout>
__device__ void own_keys(const PositionGradParams<N>& grad, TileOperands<D> at, int seq_index, int head,
                         int block_key) {
  const Params<N>& p = grad.forward.content;
  const Sequence seq(p, seq_index);
  if (block_key >= seq.k_len) return;
  const Dropout dropout(p);
  const int strip = int(warp_index()) * kStrip;
  const uint32_t weight_tile = at.scratch, dscore_tile = weight_tile + GradientBytes<D>::kWeights;
  const uint32_t skewed = dscore_tile + GradientBytes<D>::kWeights;
  const LeftRows<D, 1, false> q(at.q, strip), dout(at.dout, strip);
  load_keys(grad, seq, head, block_key, at);
  float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};
#pragma unroll 1
  for (int query = 0; query < seq.q_len; query += kTile) {
    load_queries(grad, seq, head, query, at);
    if (query == 0) {
      load_windows<kWindow>(grad, head, -block_key, 0, at);
    } else {
      at.window_k.flip ^= kTile, at.window_q.flip ^= kTile;
      load_windows<kTile>(grad, head, query - block_key, kTile, at);
    }
    const RowSums sums(grad, seq, head, query + strip);
    cuda::wait_for_copies();
    __syncthreads();
    float weights[1][kNs][4], dscores[1][kNs][4];
    tile_gradient<N, D, kDropout>(grad, seq, dropout, head, query + strip, block_key, sums, q, dout, at, weights,
                                  dscores);
    __syncthreads();
    uint32_t left[1][kNs / 2][4];
    to_left<N>(weights, left);
    store_tile(weight_tile, left);
    to_left<N>(dscores, left);
    store_tile(dscore_tile, left);
    if (grad.forward.pos_q.data != nullptr) skew_by_key<N>(skewed, dscores[0]);
    __syncthreads();
    multiply_keys<N, D>(dv, weight_tile, at.dout);
    multiply_keys<N, D>(dk, dscore_tile, at.q);
    if (grad.forward.pos_q.data != nullptr) {
      multiply_skewed<N>(dk, skewed + strip * kSkewPitch, at.window_q, kTile - kStrip - strip);
    }
    __syncthreads();
  }
  const int key = block_key + strip;
  if (key >= seq.k_len) return;
  store_strip<D>(dv, kDropout ? dropout.scale : 1, grad.dv, p, seq, head, key, at.scratch);
  store_strip<D>(dk, p.scale, grad.dk, p, seq, head, key, at.scratch);
}

// Computes dq for a tile of queries.
template <class N, int D, bool kDropout>
__device__ void own_queries(const PositionGradParams<N>& grad, TileOperands<D> at, int seq_index, int head,
                            int block_query) {
  const Params<N>& p = grad.forward.content;
  const Sequence seq(p, seq_index);
  if (block_query >= seq.q_len) return;
  const Dropout dropout(p);
  const int strip = int(warp_index()) * kStrip, query = block_query + strip;
  LeftRows<D, 1, D == 64> q(at.q, strip), dout(at.dout, strip);
  load_queries(grad, seq, head, block_query, at);
  const RowSums sums(grad, seq, head, query);
  const uint32_t skewed = at.scratch + warp_index() * kSkewStrip;
  float dq[1][D / 8][4] = {};
#pragma unroll 1
  for (int key = 0; key < seq.k_len; key += kTile) {
    load_keys(grad, seq, head, key, at);
    if (key == 0) {
      load_windows<kWindow>(grad, head, block_query, 0, at);
    } else {
      at.window_k.flip ^= kTile, at.window_q.flip ^= kTile;
      load_windows<kTile>(grad, head, block_query - key, 0, at);
    }
    cuda::wait_for_copies();
    __syncthreads();
    if (key == 0) q.hold(), dout.hold();
    float weights[1][kNs][4], dscores[1][kNs][4];
    tile_gradient<N, D, kDropout>(grad, seq, dropout, head, query, key, sums, q, dout, at, weights, dscores);
    uint32_t left[1][kNs / 2][4];
    to_left<N>(dscores, left);
    multiply_add<N>(dq, left, at.k, lanes_of_square<D>());
    if (grad.forward.pos_k.data != nullptr) {
      __syncthreads();
      skew_by_query<N>(skewed, dscores[0]);
      __syncwarp();
      multiply_skewed<N>(dq, skewed, at.window_k, strip);
    }
    __syncthreads();
  }
  if (query < seq.q_len) store_strip<D>(dq, p.scale, grad.dq, p, seq, head, query, at.scratch);
}

// Stores the warp's rows of a table's partial sum: distances 16 w .. and 64 + 16 w .., 64 columns from `column` on.
__device__ inline void store_partial(float* to, const float (&low)[1][8][4], const float (&high)[1][8][4], int column,
                                     int head_dim) {
  const int lane = int(threadIdx.x) % 32, first = int(warp_index()) * kStrip + lane / 4;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int n = i / 2, half = i % 2, at = column + n * 8 + lane % 4 * 2, row = first + half * 8;
    if (at >= head_dim) continue;
    *reinterpret_cast<float2*>(to + row * head_dim + at) = make_float2(low[0][n][2 * half], low[0][n][2 * half + 1]);
    *reinterpret_cast<float2*>(to + (row + kTile) * head_dim + at) =
        make_float2(high[0][n][2 * half], high[0][n][2 * half + 1]);
  }
}

// Computes 64 columns of the gradients of both tables from the pairs of one diagonal in a chunk of the sequences. The
// pairs at each group T of 16 distances come from some strips only: query strips 0 .. T for T < 4, and T - 4 .. 3
// otherwise; the same holds for key strips counted from the last. So each warp processes groups w and w + 4.
template <class N, int D, bool kDropout>
__device__ void own_diagonal(const PositionGradParams<N>& grad, const TileOperands<D>& at, int head, int rank,
                             int chunk, int slice) {
  const Params<N>& p = grad.forward.content;
  const Dropout dropout(p);
  const int diagonal = diagonal_of(rank), warp = int(warp_index()), strip = warp * kStrip;
  const uint32_t by_query = at.scratch, by_key = by_query + kSkewBytes;
  const LeftRows<D, 1, false> q(at.q, strip), dout(at.dout, strip);
  load_windows<kWindow>(grad, head, diagonal * kTile, 0, at);
  float dk_low[1][8][4] = {}, dk_high[1][8][4] = {}, dq_low[1][8][4] = {}, dq_high[1][8][4] = {};
#pragma unroll 1
  for (int index = chunk * grad.group; index < min((chunk + 1) * grad.group, grad.seqs); ++index) {
    const Sequence seq(p, index);
    const int last = seq.q_len - max(diagonal, 0) * kTile;
#pragma unroll 1
    for (int key = max(-diagonal, 0) * kTile; key < min(seq.k_len, last); key += kTile) {
      const int query = key + diagonal * kTile;
      load_queries(grad, seq, head, query, at);
      load_keys(grad, seq, head, key, at);
      const RowSums sums(grad, seq, head, query + strip);
      cuda::wait_for_copies();
      __syncthreads();
      float weights[1][kNs][4], dscores[1][kNs][4];
      tile_gradient<N, D, kDropout>(grad, seq, dropout, head, query + strip, key, sums, q, dout, at, weights, dscores);
      __syncthreads();
      skew_by_query<N>(by_query + strip * kSkewPitch, dscores[0]);
      skew_by_key<N>(by_key, dscores[0]);
      __syncthreads();
#pragma unroll 1
      for (int s = 0; s < kWarps; ++s) {
        const uint32_t query_strip = by_query + s * kSkewStrip, query_rows = at.q + s * kStrip * Tile<D>::kRowBytes;
        const int t = kWarps - 1 - s;  // strips of keys, from the last one on
        const uint32_t key_strip = by_key + t * kSkewStrip, key_rows = at.k + t * kStrip * Tile<D>::kRowBytes;
        if (s <= warp) {
          multiply_distances<N, D>(dk_low, query_strip, warp - s, query_rows, slice * 8);
          multiply_distances<N, D>(dq_low, key_strip, warp - s, key_rows, slice * 8);
        }
        if (s >= warp) {
          multiply_distances<N, D>(dk_high, query_strip, warp + kWarps - s, query_rows, slice * 8);
          multiply_distances<N, D>(dq_high, key_strip, warp + kWarps - s, key_rows, slice * 8);
        }
      }
      __syncthreads();
    }
  }
  const auto store = [&](int table, const float(&low)[1][8][4], const float(&high)[1][8][4]) {
    store_partial(grad.partial(head, rank, chunk, table), low, high, slice * 64, p.head_dim);
  };
  if (grad.forward.pos_k.data != nullptr) store(0, dk_low, dk_high);
  if (grad.forward.pos_q.data != nullptr) store(1, dq_low, dq_high);
}

template <class N, int D, bool kDropout>
__global__ void __launch_bounds__(kThreads, D == 64 ? 2 : 1) gradient_kernel(const PositionGradParams<N> grad) {
  extern __shared__ uint4 shared[];
  constexpr int kSlices = D / 64;
  const TileOperands<D> at = operands<D>(shared);
  const int heads = grad.forward.content.heads, row = heads * grad.seqs;
  const int tables = grad.diagonals * heads * grad.chunks * kSlices, tiles = grad.tiles * row;
  const int index = int(blockIdx.x);
  if (index < tables) {
    const int task = index / kSlices, chunk = task % grad.chunks, head = task / grad.chunks % heads;
    return own_diagonal<N, D, kDropout>(grad, at, head, task / grad.chunks / heads, chunk, index % kSlices);
  }
  const int rest = (index - tables) % tiles, seq = rest % row / heads, head = rest % heads, first = rest / row * kTile;
  if (index < tables + tiles) return own_keys<N, D, kDropout>(grad, at, seq, head, first);
  own_queries<N, D, kDropout>(grad, at, seq, head, first);
}

template <class T, int D, bool kDropout>
void launch_gradient(ExecContext& ctx, const PositionGradParams<cuda::Native<T>>& p) {
  const int64_t heads = p.forward.content.heads;
  const int64_t tables = heads * p.diagonals * p.chunks * (D / 64), tiles = heads * p.seqs * p.tiles;
  cuda::launch({dim3(unsigned(tables + 2 * tiles)), kThreads, cuda::stream_of(ctx), GradientBytes<D>::kAll},
               gradient_kernel<cuda::Native<T>, D, kDropout>, p);
}

}  // namespace

template <class T>
bool matrix_backward(ExecContext& ctx, const DisentangledAttentionGradArgs& args, const TensorView& delta,
                     const TensorView& partials) {
  bool vectors = moves_vectors<T>(args.forward);
  for (const TensorView& view : {args.dout, args.dq, args.dk, args.dv}) {
    vectors = vectors && cuda::rows_are_aligned<T>(view);
  }
  if (!vectors) return false;
  const auto run = [&]<int D>() {
    if (!fits(ctx, GradientBytes<D>::kAll)) return false;
    const auto p = make_params<T>(ctx, args, delta, partials);
    if constexpr (D == 64) {
      if (!args.forward.content.dropout) return launch_gradient<T, D, false>(ctx, p), true;
    }
    return launch_gradient<T, D, true>(ctx, p), true;
  };
  return args.forward.content.head_dim <= 64 ? run.template operator()<64>() : run.template operator()<128>();
}

template bool matrix_backward<Bf16>(ExecContext&, const DisentangledAttentionGradArgs&, const TensorView&,
                                    const TensorView&);
template bool matrix_backward<Fp16>(ExecContext&, const DisentangledAttentionGradArgs&, const TensorView&,
                                    const TensorView&);

}  // namespace gradmill::disentangled
