// SPDX-License-Identifier: Apache-2.0
// Flash attention, forward (Dao, "FlashAttention-2"). A block owns a tile of queries of one head; each of its warps
// owns 32 of them (16 for wide heads and some cases with dropout) and loops over the keys they see. Weights never leave
// registers. With heads of 64, a tile of 64 keys takes each warp 128 mma (about 800 cycles of its matrix unit), 16 KB
// of shared memory (512 cycles for four warps) and 2048 exponentials (512 cycles). So it is bound by the matrix units,
// provided that the two blocks of a multiprocessor alternate.
#include "ops/attention/attention_flash.h"

#include "cuda/launch.h"
#include "cuda/reduce.cuh"
#include "ops/attention/flash_dropout.cuh"
#include "ops/attention/flash_launch.h"
#include "ops/attention/flash_softmax.cuh"
#include "ops/attention/flash_tile.cuh"

namespace gradmill {
namespace flash {

template <int D, bool kDropout>
struct ForwardShape {
  // Dropout takes as many instructions as everything else. With half the registers, four blocks fit and hide latencies.
  static constexpr bool kSmall = kDropout && D == 64;
  static constexpr int kMs = D <= 128 && !kSmall ? 2 : 1;  // tiles of 16 queries per warp
  static constexpr int kThreads = 128, kQueries = kThreads / 32 * kMs * 16, kMinBlocks = kSmall ? 4 : 1;
  static constexpr int kKeys = D <= 96 ? 64 : 32;
  static constexpr bool kHeld = D <= 64 && !kSmall;
  static constexpr uint32_t kQueryBytes = kQueries * D * 2, kKeyBytes = kKeys * D * 2;
  static constexpr uint32_t kBytes = kQueryBytes + 4 * kKeyBytes;  // q, then two stages of k and v
};

namespace {

// The running state of a warp. Statistics belong to rows g and g + 8 of each tile of 16 queries.
template <int D, int kMs>
struct ForwardState {
  float out[kMs][D / 8][4] = {};
  float largest[kMs][2], total[kMs][2] = {};  // largest score; sum of this lane's weights relative to it

  __device__ ForwardState() {
#pragma unroll
    for (int m = 0; m < kMs; ++m) largest[m][0] = largest[m][1] = -INFINITY;
  }
};

template <int kMs, int kNs>
__device__ void mask_scores(const Sequence& seq, int query, int key, float (&scores)[kMs][kNs][4]) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < kMs; ++m) {
#pragma unroll
    for (int n = 0; n < kNs; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = query + m * 16 + lane / 4 + e / 2 * 8, column = key + n * 8 + lane % 4 * 2 + e % 2;
        if (!seq.sees(row, column)) scores[m][n][e] = -INFINITY;
      }
    }
  }
}

// Converts scores to weights, and rescales the previous sums to the new maximum.
template <int D, int kMs, int kNs>
__device__ void softmax_tile(float scale2, float (&scores)[kMs][kNs][4], ForwardState<D, kMs>& state) {
#pragma unroll
  for (int m = 0; m < kMs; ++m) {
    float shrink[2];
    softmax_strip(scale2, scores[m], state.largest[m], state.total[m], shrink);
    // After the first tiles the maxima hardly change, so usually nothing is to be done.
    if (!__any_sync(0xffffffffu, shrink[0] != 1 || shrink[1] != 1)) continue;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) state.out[m][n][e] *= shrink[e / 2];
    }
  }
}

template <int kNs>
__device__ void drop(uint32_t keep, float (&weights)[kNs][4]) {
#pragma unroll
  for (int n = 0; n < kNs; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (!has_bit(keep, query_row_bit(n, e))) weights[n][e] = 0;
    }
  }
}

// Normalises and stores the warp's rows of out and lse. Overwrites the warp's rows of q in shared memory.
template <int D, int kMs, class N>
__device__ void finish(const Params<N>& p, const Sequence& seq, int head, int query, uint32_t tile, int tile_row,
                       float keep_scale, ForwardState<D, kMs>& state) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < kMs; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = cuda::warp_reduce<4>(state.total[m][half], cuda::Sum{});
      const bool blind = total == 0;
      const float factor = blind ? 0 : keep_scale / total;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        state.out[m][n][2 * half] *= factor;
        state.out[m][n][2 * half + 1] *= factor;
      }
      const int row = query + m * 16 + lane / 4 + half * 8;
      if (lane % 4 == 0 && row < seq.q_len) {
        const float lse = fmaf(state.largest[m][half], p.scale, logf(total));
        p.lse[head * p.lse_stride + seq.q_begin + row] = blind ? 0 : lse;
      }
    }
  }
  store_rows<D>(tile, tile_row, state.out, p.out.at(seq.q_begin + query, head * p.head_dim), p.out.stride,
                seq.q_len - query, p.head_dim, p.vectors);
}

template <class N, int D, bool kDropout>
__global__ void __launch_bounds__(ForwardShape<D, kDropout>::kThreads, ForwardShape<D, kDropout>::kMinBlocks)
    forward_kernel(const Params<N> p) {
  using Shape = ForwardShape<D, kDropout>;
  constexpr int kMs = Shape::kMs, kNs = Shape::kKeys / 8;
  extern __shared__ uint4 shared[];
  const int head = int(blockIdx.x) % p.heads, column = head / p.group * p.head_dim;
  const Sequence seq(p, int(blockIdx.x) / p.heads);
  // With a causal mask, late queries see the most keys, so they start first.
  const int block_query = int(gridDim.y - 1 - blockIdx.y) * Shape::kQueries;
  if (block_query >= seq.q_len) return;

  const uint32_t q_tile = cuda::shared_address(shared), stages = q_tile + Shape::kQueryBytes;
  const auto load_keys = [&](int key, int stage) {
    const uint32_t to = stages + stage * 2 * Shape::kKeyBytes;
    load_tile<D, Shape::kKeys, Shape::kThreads>(to, p.k.at(seq.k_begin + key, column), p.k.stride, seq.k_len - key,
                                                p.head_dim, p.vectors);
    load_tile<D, Shape::kKeys, Shape::kThreads>(to + Shape::kKeyBytes, p.v.at(seq.k_begin + key, column), p.v.stride,
                                                seq.k_len - key, p.head_dim, p.vectors);
  };
  Range keys = seq.keys_of({block_query, min(block_query + Shape::kQueries, seq.q_len)});
  keys.begin -= keys.begin % Shape::kKeys;
  if (keys.begin < keys.end) {
    load_tile<D, Shape::kQueries, Shape::kThreads>(q_tile, p.q.at(seq.q_begin + block_query, head * p.head_dim),
                                                   p.q.stride, seq.q_len - block_query, p.head_dim, p.vectors);
    load_keys(keys.begin, 0);
  }

  const int tile_row = int(threadIdx.x) / 32 * kMs * 16, query = block_query + tile_row;
  const Dropout dropout(p);
  const auto dropout_column = static_cast<uint32_t>(head * p.dropout_columns);
  const LaneOffset<D> square = lanes_of_square<D>(), pair = lanes_of_pair<D>();
  LeftRows<D, kMs, Shape::kHeld> q(q_tile, tile_row);
  ForwardState<D, kMs> state;
  int stage = 0;
  for (int key = keys.begin; key < keys.end; key += Shape::kKeys, stage ^= 1) {
    cuda::wait_for_copies();
    __syncthreads();
    if (key == keys.begin) q.hold();
    if (key + Shape::kKeys < keys.end) load_keys(key + Shape::kKeys, stage ^ 1);
    const Range mine{query, query + kMs * 16}, theirs{key, key + Shape::kKeys};
    if (!seq.sees_any(mine, theirs)) continue;
    const uint32_t k_tile = stages + stage * 2 * Shape::kKeyBytes;
    uint32_t keep[kMs];
    if (kDropout && dropout.on()) {
#pragma unroll
      for (int m = 0; m < kMs; ++m) {
        keep[m] = keep_query_rows<kNs>(dropout, seq.q_begin + query + m * 16, dropout_column + key);
      }
    }
    float scores[kMs][kNs][4];
    multiply_transposed<N>(scores, q, k_tile, pair);
    if (!seq.sees_all(mine, theirs)) mask_scores(seq, query, key, scores);
    softmax_tile<D>(p.scale * kLog2E, scores, state);
    if (kDropout && dropout.on()) {
#pragma unroll
      for (int m = 0; m < kMs; ++m) drop(keep[m], scores[m]);
    }
    uint32_t weights[kMs][kNs / 2][4];
    to_left<N>(scores, weights);
    multiply_add<N>(state.out, weights, k_tile + Shape::kKeyBytes, square);
  }
  if (query < seq.q_len) finish<D>(p, seq, head, query, q_tile, tile_row, dropout.scale, state);
}

template <class T, int D, bool kDropout>
void launch_forward(ExecContext& ctx, const AttentionArgs& args) {
  using Shape = ForwardShape<D, kDropout>;
  const dim3 grid(unsigned(args.heads * args.seq.max_seqs), num_tiles(args.seq, args.q.rows(), Shape::kQueries));
  cuda::launch({grid, Shape::kThreads, cuda::stream_of(ctx), Shape::kBytes},
               forward_kernel<cuda::Native<T>, D, kDropout>, make_params<T>(ctx, args));
}

struct Paddings {
  Padding tensors[3];
};

__global__ void clear_padding_kernel(const Paddings all) {
  const Padding& padding = all.tensors[blockIdx.y];
  for (int64_t row = *padding.end + int64_t(blockIdx.x); row < padding.rows; row += gridDim.x) {
    for (int column = int(threadIdx.x); column < padding.cols; column += int(blockDim.x)) {
      const int64_t at = row * padding.row_stride + column * padding.column_stride;
      if (padding.element_bytes == 4) {
        static_cast<uint32_t*>(padding.data)[at] = 0;
      } else {
        static_cast<uint16_t*>(padding.data)[at] = 0;
      }
    }
  }
}

}  // namespace

void clear_padding(const ExecContext& ctx, std::initializer_list<Padding> tensors) {
  Paddings all{};
  std::copy(tensors.begin(), tensors.end(), all.tensors);
  const dim3 grid(ctx.cuda->num_units(), unsigned(tensors.size()));
  cuda::launch({grid, 256, cuda::stream_of(ctx)}, clear_padding_kernel, all);
}

}  // namespace flash

template <class T>
void flash_forward(ExecContext& ctx, const AttentionArgs& args) {
  if (args.q.rows() == 0) return;
  const auto* end = args.seq.cu_q.ptr<int32_t>() + args.seq.max_seqs;
  if (flash::has_padding(args.seq, args.q.rows())) {
    flash::clear_padding(ctx, {flash::padding_of(args.out, end),
                               {args.lse.data, 1, args.lse.row_stride, args.lse.cols(), int(args.heads), 4, end}});
  }
  if (args.seq.max_seqs == 0) return;
  if constexpr (!std::is_same_v<T, float>) {
    if (flash::short_forward<T>(ctx, args)) return;
  }
  flash::visit_width(args.head_dim, [&]<int D>() {
    if constexpr (!std::is_same_v<T, float>) {
      if (flash::has_matrix_units<T>(ctx, flash::ForwardShape<D, false>::kBytes)) {
        if constexpr (flash::kHasPlainKernel<D>) {
          if (!args.dropout) return flash::launch_forward<T, D, false>(ctx, args);
        }
        return flash::launch_forward<T, D, true>(ctx, args);
      }
    }
    flash::simt_forward<T>(ctx, args);
  });
}

template void flash_forward<float>(ExecContext&, const AttentionArgs&);
template void flash_forward<Bf16>(ExecContext&, const AttentionArgs&);
template void flash_forward<Fp16>(ExecContext&, const AttentionArgs&);

}  // namespace gradmill
