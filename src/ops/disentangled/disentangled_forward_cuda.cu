// SPDX-License-Identifier: Apache-2.0
// Disentangled attention, forward: a block owns 64 queries of one head and loops over their keys, like flash attention.
// A tile takes 144 mma per warp (about 900 cycles of its matrix unit) and about 200 KB of shared memory traffic for
// four warps (1600 cycles), so it is bound by shared memory. 24 x 256 tokens with 12 heads of 64 are 4608 tiles: about
// 35 microseconds on an H200, if the blocks of a multiprocessor hide each other's waits.
#include "cuda/launch.h"
#include "cuda/reduce.cuh"
#include "ops/disentangled/disentangled_cuda.h"
#include "ops/disentangled/disentangled_tile.cuh"
#include "ops/attention/flash_softmax.cuh"

namespace gradmill::disentangled {

template <int D>
struct ForwardBytes : TileBytes<D> {
  using TileBytes<D>::kRows;
  using TileBytes<D>::kRing;
  static constexpr uint32_t kK = 0, kV = kRows, kWindowK = 2 * kRows, kWindowQ = kWindowK + kRing;
  static constexpr uint32_t kScratch = kWindowQ + kRing, kAll = kScratch + kProductBytes;
  static_assert(kProductBytes >= kRows);  // for q, which is loaded to registers through this memory
};

namespace {

// The running state of a warp's queries, for rows g and g + 8.
template <int D>
struct StripState {
  float out[1][D / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {};
};

// Converts scores to weights, and rescales the previous sums to the new maximum.
template <int D>
__device__ void softmax_tile(float scale2, float (&scores)[kNs][4], StripState<D>& state) {
  float shrink[2];
  flash::softmax_strip(scale2, scores, state.largest, state.total, shrink);
#pragma unroll
  for (int i = 0; i < D / 2; ++i) state.out[0][i / 4][i % 4] *= shrink[i % 4 / 2];
}

// Normalises and stores the warp's rows of out and lse. `tile` is used by this warp only.
template <class N, int D>
__device__ void finish(const Params<N>& p, const Sequence& seq, int head, int query, uint32_t tile, float keep_scale,
                       StripState<D>& state) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = cuda::warp_reduce<4>(state.total[half], cuda::Sum{}), factor = keep_scale / total;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      state.out[0][n][2 * half] *= factor;
      state.out[0][n][2 * half + 1] *= factor;
    }
    const int row = query + lane / 4 + half * 8;
    if (lane % 4 == 0 && row < seq.q_len) {
      p.lse[head * p.lse_stride + seq.q_begin + row] = fmaf(state.largest[half], p.scale, logf(total));
    }
  }
  store_rows<D>(tile, 0, state.out, p.out.at(seq.q_begin + query, head * p.head_dim), p.out.stride, seq.q_len - query,
                p.head_dim, true);
}

template <class N, int D, bool kDropout>
__global__ void __launch_bounds__(kThreads, D == 64 ? 3 : 1) forward_kernel(const PositionParams<N> p) {
  using Bytes = ForwardBytes<D>;
  extern __shared__ uint4 shared[];
  const Params<N>& content = p.content;
  const int head = int(blockIdx.x) % content.heads, column = head * content.head_dim, head_dim = content.head_dim;
  const Sequence seq(content, int(blockIdx.x) / content.heads);
  const int block_query = int(blockIdx.y) * kTile;
  if (block_query >= seq.q_len) return;

  const uint32_t base = cuda::shared_address(shared), scratch = base + Bytes::kScratch;
  const uint32_t k_tile = base + Bytes::kK, v_tile = base + Bytes::kV;
  Window<D> window_k{base + Bytes::kWindowK}, window_q{base + Bytes::kWindowQ};
  load_rows<D>(scratch, content.q, seq, block_query, column, head_dim);
  load_rows<D>(k_tile, content.k, seq, 0, column, head_dim);
  load_window<kWindow>(window_k, p, p.pos_k, column, block_query, 0);
  load_window<kWindow>(window_q, p, p.pos_q, column, block_query, 0);
  cuda::wait_for_copies();
  __syncthreads();
  const int strip = int(warp_index()) * kStrip, query = block_query + strip;
  LeftRows<D, 1, true> q(scratch, strip);
  q.hold();
  __syncthreads();

  const Dropout dropout(content);
  const auto dropout_column = static_cast<uint32_t>(head * content.dropout_columns);
  StripState<D> state;
#pragma unroll 1
  for (int key = 0; key < seq.k_len; key += kTile) {
    load_rows<D>(v_tile, content.v, seq, key, column, head_dim);
    cuda::commit_copies();
    uint32_t keep = ~0u;
    if (kDropout && dropout.on()) {
      keep = keep_query_rows<kNs>(dropout, seq.q_begin + query, dropout_column + key);
    }
    float scores[1][kNs][4];
    tile_scores<N>(scores, p, q, k_tile, window_k, window_q, scratch);
    // No thread reads keys and windows of this tile any more.
    if (p.pos_q.data == nullptr) __syncthreads();
    if (key + kTile < seq.k_len) {
      window_k.flip ^= kTile, window_q.flip ^= kTile;
      load_rows<D>(k_tile, content.k, seq, key + kTile, column, head_dim);
      load_window<kTile>(window_k, p, p.pos_k, column, block_query - key - kTile, 0);
      load_window<kTile>(window_q, p, p.pos_q, column, block_query - key - kTile, 0);
    }
    cuda::commit_copies();
    if (key + kTile > seq.k_len) mask_keys(scores[0], seq.k_len - key);
    softmax_tile<D>(content.scale * kLog2E, scores[0], state);
    if (kDropout) {
#pragma unroll
      for (int i = 0; i < 4 * kNs; ++i) {
        if (!has_bit(keep, query_row_bit(i / 4, i % 4))) scores[0][i / 4][i % 4] = 0;
      }
    }
    uint32_t weights[1][kNs / 2][4];
    to_left<N>(scores, weights);
    cuda::wait_for_groups<1>();
    __syncthreads();
    multiply_add<N>(state.out, weights, v_tile, lanes_of_square<D>());
    cuda::wait_for_copies();
    __syncthreads();
  }
  if (query >= seq.q_len) return;
  const uint32_t own = scratch + warp_index() * kStrip * kQueryPitch * 4;
  finish<N>(content, seq, head, query, own, kDropout ? dropout.scale : 1, state);
}

template <class T, int D, bool kDropout>
void launch_forward(ExecContext& ctx, const DisentangledAttentionArgs& args) {
  const AttentionArgs& content = args.content;
  const dim3 grid(unsigned(content.heads * content.seq.max_seqs), num_tiles(content.seq, content.q.rows(), kTile));
  cuda::launch({grid, kThreads, cuda::stream_of(ctx), ForwardBytes<D>::kAll},
               forward_kernel<cuda::Native<T>, D, kDropout>, make_params<T>(ctx, args));
}

}  // namespace

template <class T>
bool matrix_forward(ExecContext& ctx, const DisentangledAttentionArgs& args) {
  const auto run = [&]<int D>() {
    if (!fits(ctx, ForwardBytes<D>::kAll)) return false;
    if constexpr (D == 64) {
      if (!args.content.dropout) return launch_forward<T, D, false>(ctx, args), true;
    }
    return launch_forward<T, D, true>(ctx, args), true;
  };
  if (!moves_vectors<T>(args)) return false;
  return args.content.head_dim <= 64 ? run.template operator()<64>() : run.template operator()<128>();
}

template bool matrix_forward<Bf16>(ExecContext&, const DisentangledAttentionArgs&);
template bool matrix_forward<Fp16>(ExecContext&, const DisentangledAttentionArgs&);

}  // namespace gradmill::disentangled
