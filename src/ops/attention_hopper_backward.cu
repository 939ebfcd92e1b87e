// SPDX-License-Identifier: Apache-2.0
// Attention's backward on Hopper, by warpgroup products from tiles that the copy engine brings. As in
// attention_flash_backward.cu one kernel owns keys and walks over the queries of all heads that share them, one owns
// queries and walks over keys: seven products instead of five, but no atomics, no fp32 accumulator in memory, nothing
// that passes through shared memory on its way from one product to the next, and results that never depend on order.
// A tile of 64 x 128 scores takes 256 cycles of the matrix units a product and 512 of the exponential unit: two
// warpgroups take turns, one multiplies while the other computes weights.
#include "cuda/launch.h"
#include "cuda/reduce.cuh"
#include "cuda/tensor_map.h"
#include "ops/attention_hopper.cuh"
#include "ops/attention_hopper.h"
#include "ops/flash_params.cuh"

namespace gradmill {
namespace hopper {
namespace {

#ifdef GRADMILL_HOPPER_CODE

// Weights and their gradients of one tile: this thread's scores `s` and the products of v and dout `dp`, while `dp` is
// still being computed. On the diagonal, keys see only queries from themselves on.
template <bool kDiagonal>
__device__ void weigh_queries(uint32_t stats, float scale_log2, int key, int query, float (&s)[16][4],
                              float (&dp)[16][4]) {
#pragma unroll
  for (int j = 0; j < kTile / 8; ++j) {
    const float2 lse = cuda::load_shared_pair(stats + uint32_t(8 * j + query) * 4);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const bool hidden = kDiagonal && key + e / 2 * 8 > 8 * j + query + e % 2;
      const float weight = cuda::exp2_fast(fmaf(s[j][e], scale_log2, -(e % 2 ? lse.y : lse.x)));
      s[j][e] = hidden ? 0 : weight;
    }
  }
  cuda::hold_in_place(s);  // before the wait, not after it
  cuda::wait_for_products<0>();
  cuda::hold_in_place(dp);
#pragma unroll
  for (int j = 0; j < kTile / 8; ++j) {
    const float2 delta = cuda::load_shared_pair(stats + uint32_t(kTile + 8 * j + query) * 4);
#pragma unroll
    for (int e = 0; e < 4; ++e) dp[j][e] = s[j][e] * (dp[j][e] - (e % 2 ? delta.y : delta.x));
  }
}

template <class N>
__device__ void walk_over_queries(const KeyLayout& shared, const Maps& maps, const Params& p, int kv_head, int row,
                                  int tile, int steps, int steps_a_head) {
  const int warpgroup = own_warpgroup(), lane = int(threadIdx.x) % 32;
  // This thread's first key and query of a tile; more keys follow at + 8, queries at + 1 and every + 8.
  const int key = warpgroup * 64 + int(threadIdx.x) % kWarpgroup / 32 * 16 + lane / 4, query = lane % 4 * 2;
  const uint64_t k = cuda::matrix_at(shared.own(0) + warpgroup * kHalfTileBytes);
  const uint64_t v = cuda::matrix_at(shared.own(1) + warpgroup * kHalfTileBytes);
  const float scale_log2 = p.scale * flash::kLog2E;
  float s[16][4], dp[16][4], dk[8][4] = {}, dv[8][4] = {};
  uint32_t left[kTile / 16][4], dleft[kTile / 16][4];
  RingPlace<kKeyStages> place;
  int diagonal_in = p.causal ? 0 : steps;  // steps until a tile on the diagonal comes
  // The part of a step before its products with queries and dout; its scores have been started.
  const auto weigh = [&] {
    multiply_columns<N>(dp, v, cuda::matrix_at(shared.tile(place.stage, 1)));
    cuda::wait_for_products<1>();
    cuda::hold_in_place(s);
    if (diagonal_in == 0) {
      weigh_queries<true>(shared.stats(place.stage), scale_log2, key, query, s, dp);
      diagonal_in = steps_a_head;
    } else {
      weigh_queries<false>(shared.stats(place.stage), scale_log2, key, query, s, dp);
    }
    --diagonal_in;
    to_left<N>(s, left);
    to_left<N>(dp, dleft);
  };
  const Turns turns(warpgroup);
  cuda::barrier_wait(shared.own_full(), 0);
  cuda::barrier_wait(shared.full(0), 0);
  turns.wait();
  multiply_columns<N>(s, k, cuda::matrix_at(shared.tile(0, 0)));
  turns.pass_on();
  weigh();
#pragma unroll 1
  for (int step = 1; step < steps; ++step) {
    const int done = place.stage;
    place.advance();
    cuda::barrier_wait(shared.full(place.stage), place.parity);
    turns.wait();
    multiply_rows<N>(dv, left, cuda::matrix_at(shared.tile(done, 1)));
    multiply_rows<N>(dk, dleft, cuda::matrix_at(shared.tile(done, 0)));
    multiply_columns<N>(s, k, cuda::matrix_at(shared.tile(place.stage, 0)));
    turns.pass_on();
    cuda::wait_for_products<1>();
    cuda::hold_in_place(dk);
    cuda::hold_in_place(dv);
    cuda::barrier_arrive(shared.empty(done));  // every lane has read stats for itself
    weigh();
  }
  multiply_rows<N>(dv, left, cuda::matrix_at(shared.tile(place.stage, 1)));
  multiply_rows<N>(dk, dleft, cuda::matrix_at(shared.tile(place.stage, 0)));
  cuda::wait_for_products<0>();
  cuda::hold_in_place(dk);
  cuda::hold_in_place(dv);
  sync_consumers();  // no product reads keys or values any more
  stage_result<N>(dk, p.scale, shared.own(0), warpgroup * 64);
  stage_result<N>(dv, 1, shared.own(1), warpgroup * 64);
  sync_consumers();
  if (threadIdx.x == 0) {
    cuda::store_tile(maps.dk, kv_head * kHeadDim, row + tile * kTile, shared.own(0));
    cuda::store_tile(maps.dv, kv_head * kHeadDim, row + tile * kTile, shared.own(1));
    cuda::wait_for_stores();
  }
}

template <bool kDiagonal>
__device__ void weigh_keys(float scale_log2, int query, int key, const float (&lse)[2], const float (&delta)[2],
                           float (&s)[16][4], float (&dp)[16][4]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const bool hidden = kDiagonal && 8 * (i / 4) + key + i % 2 > query + i / 2 % 2 * 8;
    float& score = s[i / 4][i % 4];
    const float weight = cuda::exp2_fast(fmaf(score, scale_log2, -lse[i / 2 % 2]));
    score = hidden ? 0 : weight;
  }
  cuda::hold_in_place(s);  // before the wait, not after it
  cuda::wait_for_products<0>();
  cuda::hold_in_place(dp);
#pragma unroll
  for (int i = 0; i < 64; ++i) s[i / 4][i % 4] *= dp[i / 4][i % 4] - delta[i / 2 % 2];
}

template <class N>
__device__ void walk_over_keys(const QueryLayout& shared, const Maps& maps, const Params& p, int head, int row,
                               int tile, int steps, const float* stats) {
  const int warpgroup = own_warpgroup(), lane = int(threadIdx.x) % 32;
  const int query = warpgroup * 64 + int(threadIdx.x) % kWarpgroup / 32 * 16 + lane / 4, key = lane % 4 * 2;
  const float lse[2] = {stats[query], stats[query + 8]}, delta[2] = {stats[kTile + query], stats[kTile + query + 8]};
  const uint64_t q = cuda::matrix_at(shared.own(0) + warpgroup * kHalfTileBytes);
  const uint64_t dout = cuda::matrix_at(shared.own(1) + warpgroup * kHalfTileBytes);
  const float scale_log2 = p.scale * flash::kLog2E;
  float s[16][4], dp[16][4], dq[8][4] = {};
  uint32_t left[kTile / 16][4];
  RingPlace<kQueryStages> place;
  const Turns turns(warpgroup);
  // The part of a step before its product with keys; its two products have been started.
  const auto weigh = [&](bool diagonal) {
    if (diagonal) {
      weigh_keys<true>(scale_log2, query, key, lse, delta, s, dp);
    } else {
      weigh_keys<false>(scale_log2, query, key, lse, delta, s, dp);
    }
    to_left<N>(s, left);
  };
  const auto start = [&] {
    multiply_columns<N>(s, q, cuda::matrix_at(shared.tile(place.stage, 0)));
    multiply_columns<N>(dp, dout, cuda::matrix_at(shared.tile(place.stage, 1)));
    turns.pass_on();
    cuda::wait_for_products<1>();
    cuda::hold_in_place(s);
  };
  cuda::barrier_wait(shared.own_full(), 0);
  cuda::barrier_wait(shared.full(0), 0);
  turns.wait();
  start();
  weigh(p.causal && steps == 1);
#pragma unroll 1
  for (int step = 1; step < steps; ++step) {
    const int done = place.stage;
    place.advance();
    cuda::barrier_wait(shared.full(place.stage), place.parity);
    turns.wait();
    multiply_rows<N>(dq, left, cuda::matrix_at(shared.tile(done, 0)));
    start();
    cuda::hold_in_place(dq);
    if (lane == 0) cuda::barrier_arrive(shared.empty(done));
    weigh(p.causal && step + 1 == steps);
  }
  multiply_rows<N>(dq, left, cuda::matrix_at(shared.tile(place.stage, 0)));
  cuda::wait_for_products<0>();
  cuda::hold_in_place(dq);
  sync_consumers();
  stage_result<N>(dq, p.scale, shared.own(0), warpgroup * 64);
  sync_consumers();
  if (threadIdx.x == 0) {
    cuda::store_tile(maps.dq, head * kHeadDim, row + tile * kTile, shared.own(0));
    cuda::wait_for_stores();
  }
}

// The producer's part: one thread starts all copies.
__device__ void bring_queries(const KeyLayout& shared, const Maps& maps, const Params& p, int seq, int kv_head, int row,
                              int tile, int first, int steps) {
  cuda::barrier_expect(shared.own_full(), 2 * kTileBytes);
  cuda::copy_tile(shared.own(0), maps.k, kv_head * kHeadDim, row + tile * kTile, shared.own_full());
  cuda::copy_tile(shared.own(1), maps.v, kv_head * kHeadDim, row + tile * kTile, shared.own_full());
  RingPlace<kKeyStages> place;
  int head = kv_head * p.group, query_tile = first;
  for (int step = 0; step < steps; ++step) {
    if (step >= kKeyStages) cuda::barrier_wait(shared.empty(place.stage), place.parity ^ 1);
    const uint32_t full = shared.full(place.stage);
    cuda::barrier_expect(full, 2 * kTileBytes + kStatsBytes);
    cuda::copy_tile(shared.tile(place.stage, 0), maps.q, head * kHeadDim, row + query_tile * kTile, full);
    cuda::copy_tile(shared.tile(place.stage, 1), maps.dout, head * kHeadDim, row + query_tile * kTile, full);
    const int64_t stats = (int64_t(seq) * p.heads + head) * p.tiles + query_tile;
    cuda::copy_bytes(shared.stats(place.stage), p.stats + stats * 2 * kTile, kStatsBytes, full);
    place.advance();
    if (++query_tile < p.tiles) continue;
    query_tile = first;
    ++head;
  }
}

__device__ void bring_keys(const QueryLayout& shared, const Maps& maps, int head, int kv_head, int row, int tile,
                           int steps) {
  cuda::barrier_expect(shared.own_full(), 2 * kTileBytes);
  cuda::copy_tile(shared.own(0), maps.q, head * kHeadDim, row + tile * kTile, shared.own_full());
  cuda::copy_tile(shared.own(1), maps.dout, head * kHeadDim, row + tile * kTile, shared.own_full());
  RingPlace<kQueryStages> place;
  for (int step = 0; step < steps; ++step) {
    if (step >= kQueryStages) cuda::barrier_wait(shared.empty(place.stage), place.parity ^ 1);
    const uint32_t full = shared.full(place.stage);
    cuda::barrier_expect(full, 2 * kTileBytes);
    cuda::copy_tile(shared.tile(place.stage, 0), maps.k, kv_head * kHeadDim, row + step * kTile, full);
    cuda::copy_tile(shared.tile(place.stage, 1), maps.v, kv_head * kHeadDim, row + step * kTile, full);
    place.advance();
  }
}

#endif  // GRADMILL_HOPPER_CODE

template <class N>
__global__ void __launch_bounds__(kThreads, 1) key_kernel(const __grid_constant__ Maps maps, const Params p) {
#ifdef GRADMILL_HOPPER_CODE
  extern __shared__ uint4 memory[];
  const KeyLayout shared(memory);
  const int kv_heads = p.heads / p.group, kv_head = int(blockIdx.x) % kv_heads, seq = int(blockIdx.x) / kv_heads;
  const int tile = int(blockIdx.y);  // early keys are seen most under a causal mask
  const int row = seq * p.tiles * kTile, first = p.causal ? tile : 0, tiles = p.tiles - first;
  shared.init_barriers();
  if (threadIdx.x >= kConsumers * kWarpgroup) {
    cuda::give_registers<kProducerRegisters>();
    if (threadIdx.x == kConsumers * kWarpgroup) {
      bring_queries(shared, maps, p, seq, kv_head, row, tile, first, tiles * p.group);
    }
  } else {
    cuda::take_registers<kConsumerRegisters>();
    walk_over_queries<N>(shared, maps, p, kv_head, row, tile, tiles * p.group, tiles);
  }
#else
  __trap();
#endif
}

template <class N>
__global__ void __launch_bounds__(kThreads, 1) query_kernel(const __grid_constant__ Maps maps, const Params p) {
#ifdef GRADMILL_HOPPER_CODE
  extern __shared__ uint4 memory[];
  const QueryLayout shared(memory);
  const int head = int(blockIdx.x) % p.heads, seq = int(blockIdx.x) / p.heads, kv_head = head / p.group;
  const int tile = int(gridDim.y - 1 - blockIdx.y);
  const int row = seq * p.tiles * kTile, steps = p.causal ? tile + 1 : p.tiles;
  shared.init_barriers();
  if (threadIdx.x >= kConsumers * kWarpgroup) {
    cuda::give_registers<kProducerRegisters>();
    if (threadIdx.x == kConsumers * kWarpgroup) bring_keys(shared, maps, head, kv_head, row, tile, steps);
  } else {
    cuda::take_registers<kConsumerRegisters>();
    const int64_t stats = (int64_t(seq) * p.heads + head) * p.tiles + tile;
    walk_over_keys<N>(shared, maps, p, head, row, tile, steps, p.stats + stats * 2 * kTile);
  }
#else
  __trap();
#endif
}

// Each row's stats: eight lanes a row and head, four rows of a head a warp; bound by memory.
template <class N>
__global__ void stats_kernel(flash::HeadRows<const N> out, flash::HeadRows<const N> dout, const float* lse,
                             LseOrder order, int rows_a_seq, int heads, float* stats) {
  constexpr int kLanes = 8;
  const int lane = int(threadIdx.x) % kLanes, head = int(blockIdx.x) % heads;
  const int row = int(blockIdx.x) / heads * int(blockDim.x / kLanes) + int(threadIdx.x) / kLanes;
  const auto a = cuda::Pack<N>::load(out.at(row, head * kHeadDim + lane * 8));
  const auto b = cuda::Pack<N>::load(dout.at(row, head * kHeadDim + lane * 8));
  float sum = 0;
#pragma unroll
  for (int e = 0; e < 8; ++e) sum = fmaf(a[e], b[e], sum);
  sum = cuda::warp_reduce<kLanes>(sum, cuda::Sum{});
  if (lane != 0) return;
  const int seq = row / rows_a_seq, at = row % rows_a_seq;
  float* to = stats + ((int64_t(seq) * heads + head) * (rows_a_seq / kTile) + at / kTile) * 2 * kTile + at % kTile;
  to[0] = lse[seq * order.seq_stride + head * order.head_stride + at] * flash::kLog2E;
  to[kTile] = sum;
}

template <class T>
void launch_stats(ExecContext& ctx, const AttentionGradArgs& args, const LseOrder& order, const TensorView& stats) {
  using N = cuda::Native<T>;
  constexpr int kStatsThreads = 256, kRows = kStatsThreads / 8;
  static_assert(kTile % kRows == 0);
  const AttentionArgs& forward = args.forward;
  const auto read = [](const TensorView& view) {
    return flash::HeadRows<const N>{cuda::native<T>(view), view.row_stride};
  };
  const auto blocks = static_cast<unsigned>(forward.q.rows() / kRows * forward.heads);
  cuda::launch({dim3(blocks), kStatsThreads, cuda::stream_of(ctx)}, stats_kernel<N>, read(forward.out), read(args.dout),
               forward.lse.ptr<float>(), order, int(forward.seq.max_len), int(forward.heads), stats.ptr<float>());
}

bool is_tileable(const TensorView& view) { return cuda::rows_are_aligned<Bf16>(view); }

}  // namespace
}  // namespace hopper

bool hopper_supports(const ExecContext& ctx, const AttentionArgs& args) {
#ifndef GRADMILL_WITH_WGMMA
  return false;
#endif
  const SeqLayout& seq = args.seq;
  const bool causal = args.mask.right == 0, everything = args.mask.right < 0 || args.mask.right >= seq.max_len - 1;
  const bool unlimited = args.mask.left < 0 || args.mask.left >= seq.max_len - 1;
  return ctx.cuda->compute_capability() == 90 && args.q.dtype != DType::fp32 && args.head_dim == hopper::kHeadDim &&
         seq.dense && seq.max_seqs > 0 && seq.max_len % hopper::kTile == 0 && (causal || everything) && unlimited &&
         !args.dropout && args.q.rows() == seq.max_seqs * seq.max_len && hopper::is_tileable(args.q) &&
         hopper::is_tileable(args.k) && hopper::is_tileable(args.v) && hopper::is_tileable(args.out);
}

int64_t hopper_backward_scratch(const AttentionGradArgs& args) { return 2 * args.forward.lse.numel(); }

template <class T>
void hopper_backward(ExecContext& ctx, const AttentionGradArgs& args, const LseOrder& lse, const TensorView& scratch) {
  using namespace hopper;
  using N = cuda::Native<T>;
  const AttentionArgs& forward = args.forward;
  launch_stats<T>(ctx, args, lse, scratch);
  const auto map = [](const TensorView& view) { return cuda::map_tiles(view, kTile); };
  const Maps maps{map(forward.q), map(forward.k), map(forward.v), map(args.dout),
                  map(args.dq),   map(args.dk),   map(args.dv)};
  const Params p{.stats = scratch.ptr<float>(),
                 .tiles = int(forward.seq.max_len / kTile),
                 .heads = int(forward.heads),
                 .group = int(forward.heads / forward.kv_heads),
                 .scale = forward.scale,
                 .causal = forward.mask.right == 0};
  const auto seqs = static_cast<unsigned>(forward.seq.max_seqs), tiles = static_cast<unsigned>(p.tiles);
  cuda::launch({dim3(seqs * unsigned(forward.kv_heads), tiles), kThreads, cuda::stream_of(ctx), KeyLayout::kBytes},
               key_kernel<N>, maps, p);
  cuda::launch({dim3(seqs * unsigned(forward.heads), tiles), kThreads, cuda::stream_of(ctx), QueryLayout::kBytes},
               query_kernel<N>, maps, p);
}

template void hopper_backward<Bf16>(ExecContext&, const AttentionGradArgs&, const LseOrder&, const TensorView&);
template void hopper_backward<Fp16>(ExecContext&, const AttentionGradArgs&, const LseOrder&, const TensorView&);

}  // namespace gradmill
