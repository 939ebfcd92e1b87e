// SPDX-License-Identifier: Apache-2.0
// Attention's backward on Hopper, by warpgroup products from tiles that the copy engine brings. As in
// attention_flash_backward.cu one kernel owns keys and walks over the queries of all heads that share them, one owns
// queries and walks over keys: seven products instead of five, but no atomics, no fp32 accumulator in memory, nothing
// that passes through shared memory on its way from one product to the next, and results that never depend on order.
// A tile of 64 x 128 scores takes 256 cycles of the matrix units a product and 512 of the exponential unit: two
// warpgroups take turns, one multiplies while the other computes weights. Blocks stay and take one tile after the
// other: the next one's rows come while this one's are worked on.
#include <algorithm>

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
template <bool kDiagonal, Part kPart>
__device__ void weigh_queries(uint32_t stats, float scale_log2, int key, int query, Scores<kPart>& s,
                              Scores<kPart>& dp) {
  query += begin_of(kPart);
#pragma unroll
  for (int j = 0; j < rows_of(kPart) / 8; ++j) {
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
  for (int j = 0; j < rows_of(kPart) / 8; ++j) {
    const float2 delta = cuda::load_shared_pair(stats + uint32_t(kTile + 8 * j + query) * 4);
#pragma unroll
    for (int e = 0; e < 4; ++e) dp[j][e] = s[j][e] * (dp[j][e] - (e % 2 ? delta.y : delta.x));
  }
}

template <class N>
__device__ void walk_over_queries(const Layout<true>& shared, const Maps& maps, const Params& p) {
  const auto [warpgroup, lane, key, query] = Seat();
  const float scale_log2 = p.scale * flash::kLog2E;
  const Turns<kConsumers> turns(warpgroup);
  Owned<Layout<true>> owned(shared, warpgroup);
  cuda::RingPlace<kStages> place;
#pragma unroll 1
  while (owned.wait()) {
    const uint64_t k = cuda::matrix_at(owned.rows(0)), v = cuda::matrix_at(owned.rows(1));
    float dk[8][4] = {}, dv[8][4] = {};
    uint32_t left[kTile / 16][4], dleft[kTile / 16][4];
    const auto add_gradients = [&](int stage) {
      multiply_rows<N>(dv, left, cuda::matrix_at(shared.tile(stage, 1)));
      multiply_rows<N>(dk, dleft, cuda::matrix_at(shared.tile(stage, 0)));
    };
    const auto release = [&](int stage) {
      cuda::hold_in_place(dk);
      cuda::hold_in_place(dv);
      cuda::barrier_arrive(shared.empty(stage));  // every lane has read stats for itself
    };
    // A step, but for its products with queries and dout; kFirst: there was none whose products are still to do.
    const auto step = [&]<bool kFirst, bool kDiagonal, Part kPart>() {
      Scores<kPart> s, dp;
      const int done = place.stage;
      if constexpr (!kFirst) place.advance();
      cuda::barrier_wait(shared.full(place.stage), place.parity);
      turns.wait();
      if constexpr (!kFirst) add_gradients(done);
      multiply_columns<N, kPart>(s, k, cuda::matrix_at(shared.tile(place.stage, 0)));
      turns.pass_on();
      if constexpr (!kFirst) {
        cuda::wait_for_products<1>();
        release(done);
      }
      multiply_columns<N, kPart>(dp, v, cuda::matrix_at(shared.tile(place.stage, 1)));
      cuda::wait_for_products<1>();
      cuda::hold_in_place(s);
      weigh_queries<kDiagonal, kPart>(shared.stats(place.stage), scale_log2, key, query, s, dp);
      to_left<N, kPart>(s, left);
      to_left<N, kPart>(dp, dleft);
    };
    // The tiles of a head begin with the one on the diagonal.
    if (!p.causal) {
      step.template operator()<true, false, Part::all>();
    } else if (warpgroup == 1) {  // there the second half of the keys sees the second half of the queries
      step.template operator()<true, true, Part::second>();
    } else {
      step.template operator()<true, true, Part::all>();
    }
    owned.release_before();
    const int steps = owned.told(Told::steps), steps_a_head = steps / p.group;
    int next_diagonal = p.causal ? steps_a_head : steps;
#pragma unroll 1
    for (int i = 1; i < steps; ++i) {
      if (i == next_diagonal) {
        step.template operator()<false, true, Part::all>();  // in halves it would want too many registers
        next_diagonal += steps_a_head;
      } else {
        step.template operator()<false, false, Part::all>();
      }
    }
    add_gradients(place.stage);
    cuda::wait_for_products<0>();
    release(place.stage);
    place.advance();
    owned.begin_results();
    stage_result<N>(dk, p.scale, owned.rows(0));
    stage_result<N>(dv, 1, owned.rows(1));
    const int row = owned.told(Told::row) + warpgroup * kHalf, column = owned.told(Told::head) * kHeadDim;
    owned.end_results([&] {
      cuda::store_tile(maps.dk, column, row, owned.rows(0));
      cuda::store_tile(maps.dv, column, row, owned.rows(1));
    });
  }
  owned.finish();
}

template <bool kDiagonal, Part kPart>
__device__ void weigh_keys(float scale_log2, int query, int key, const float (&lse)[2], const float (&delta)[2],
                           Scores<kPart>& s, Scores<kPart>& dp) {
  key += begin_of(kPart);
#pragma unroll
  for (int i = 0; i < rows_of(kPart) / 2; ++i) {
    const bool hidden = kDiagonal && 8 * (i / 4) + key + i % 2 > query + i / 2 % 2 * 8;
    float& score = s[i / 4][i % 4];
    const float weight = cuda::exp2_fast(fmaf(score, scale_log2, -lse[i / 2 % 2]));
    score = hidden ? 0 : weight;
  }
  cuda::hold_in_place(s);  // before the wait, not after it
  cuda::wait_for_products<0>();
  cuda::hold_in_place(dp);
#pragma unroll
  for (int i = 0; i < rows_of(kPart) / 2; ++i) s[i / 4][i % 4] *= dp[i / 4][i % 4] - delta[i / 2 % 2];
}

template <class N>
__device__ void walk_over_keys(const Layout<false>& shared, const Maps& maps, const Params& p) {
  const auto [warpgroup, lane, query, key] = Seat();
  const float scale_log2 = p.scale * flash::kLog2E;
  const Turns<kConsumers> turns(warpgroup);
  Owned<Layout<false>> owned(shared, warpgroup);
  cuda::RingPlace<kStages> place;
#pragma unroll 1
  while (owned.wait()) {
    const uint64_t q = cuda::matrix_at(owned.rows(0)), dout = cuda::matrix_at(owned.rows(1));
    const uint32_t stats = shared.stats(owned.buffer()) + uint32_t(query) * 4;
    const float lse[2] = {cuda::load_shared_float(stats), cuda::load_shared_float(stats + 8 * 4)};
    const float delta[2] = {cuda::load_shared_float(stats + kTile * 4),
                            cuda::load_shared_float(stats + (kTile + 8) * 4)};
    float dq[8][4] = {};
    uint32_t left[kTile / 16][4];
    const auto release = [&](int stage) {
      cuda::hold_in_place(dq);
      if (lane == 0) cuda::barrier_arrive(shared.empty(stage));
    };
    // A step, but for its product with keys; kFirst: there was none whose product is still to do.
    const auto step = [&]<bool kFirst, bool kDiagonal, Part kPart>() {
      Scores<kPart> s, dp;
      const int done = place.stage;
      if constexpr (!kFirst) place.advance();
      cuda::barrier_wait(shared.full(place.stage), place.parity);
      turns.wait();
      if constexpr (!kFirst) multiply_rows<N>(dq, left, cuda::matrix_at(shared.tile(done, 0)));
      multiply_columns<N, kPart>(s, q, cuda::matrix_at(shared.tile(place.stage, 0)));
      multiply_columns<N, kPart>(dp, dout, cuda::matrix_at(shared.tile(place.stage, 1)));
      turns.pass_on();
      cuda::wait_for_products<1>();
      cuda::hold_in_place(s);
      if constexpr (!kFirst) release(done);
      weigh_keys<kDiagonal, kPart>(scale_log2, query, key, lse, delta, s, dp);
      to_left<N, kPart>(s, left);
    };
    if (!p.causal) {
      step.template operator()<true, false, Part::all>();
    } else if (warpgroup == 0) {  // on the diagonal the first half of the queries sees the first half of the keys
      step.template operator()<true, true, Part::first>();
    } else {
      step.template operator()<true, true, Part::all>();
    }
    owned.release_before();
    const int steps = owned.told(Told::steps);
#pragma unroll 1
    for (int i = 1; i < steps; ++i) step.template operator()<false, false, Part::all>();
    multiply_rows<N>(dq, left, cuda::matrix_at(shared.tile(place.stage, 0)));
    cuda::wait_for_products<0>();
    release(place.stage);
    place.advance();
    owned.begin_results();
    stage_result<N>(dq, p.scale, owned.rows(0));
    const int row = owned.told(Told::row) + warpgroup * kHalf, column = owned.told(Told::head) * kHeadDim;
    owned.end_results([&] { cuda::store_tile(maps.dq, column, row, owned.rows(0)); });
  }
  owned.finish();
}

// The producer's part: one thread starts all copies.
__device__ void bring_keys(const Layout<false>& shared, const Maps& maps, const Params& p) {
  OwnTiles<false> own(shared, p);
  cuda::RingPlace<kStages> place;
  for (;; own.advance()) {
    const Item item = own.next(2 * kTileBytes + kStatsBytes);
    if (item.steps == 0) return;
    own.copy(0, maps.q, item);
    own.copy(1, maps.dout, item);
    const float* const stats = p.stats_of(item.seq, item.head, item.tile);
    cuda::copy_bytes(shared.stats(own.buffer()), stats, kStatsBytes, own.full());
    bring_keys(shared, maps, p, item.seq, item.head / p.group, item.steps, place);
  }
}

__device__ void bring_queries(const Layout<true>& shared, const Maps& maps, const Params& p) {
  OwnTiles<true> own(shared, p);
  cuda::RingPlace<kStages> place;
  for (;; own.advance()) {
    const Item item = own.next(2 * kTileBytes);
    if (item.steps == 0) return;
    own.copy(0, maps.k, item);
    own.copy(1, maps.v, item);
    const int first = p.causal ? item.tile : 0;
    int head = item.head * p.group, tile = first;
#pragma unroll 1
    for (int step = 0; step < item.steps; ++step, place.advance()) {
      const uint32_t full = shared.full(place.stage);
      const int row = (item.seq * p.tiles + tile) * kTile;
      cuda::barrier_wait(shared.empty(place.stage), place.parity ^ 1);
      cuda::barrier_expect(full, 2 * kTileBytes + kStatsBytes);
      cuda::copy_tile(shared.tile(place.stage, 0), maps.q, head * kHeadDim, row, full);
      cuda::copy_tile(shared.tile(place.stage, 1), maps.dout, head * kHeadDim, row, full);
      cuda::copy_bytes(shared.stats(place.stage), p.stats_of(item.seq, head, tile), kStatsBytes, full);
      if (++tile < p.tiles) continue;
      tile = first;
      ++head;
    }
  }
}

#endif  // GRADMILL_HOPPER_CODE

template <class N, bool kKeys>
__global__ void __launch_bounds__(kThreads, 1)
    gradient_kernel(const __grid_constant__ Maps maps, const __grid_constant__ Params p) {
#ifdef GRADMILL_HOPPER_CODE
  extern __shared__ uint4 memory[];
  const Layout<kKeys> shared(memory);
  shared.init_barriers();
  if (threadIdx.x >= kConsumers * kWarpgroup) {
    cuda::give_registers<kProducerRegisters>();
    if (threadIdx.x != kConsumers * kWarpgroup) return;
    if constexpr (kKeys) {
      bring_queries(shared, maps, p);
    } else {
      bring_keys(shared, maps, p);
    }
  } else {
    cuda::take_registers<kConsumerRegisters>();
    if constexpr (kKeys) {
      walk_over_queries<N>(shared, maps, p);
    } else {
      walk_over_keys<N>(shared, maps, p);
    }
  }
#else
  __trap();
#endif
}

// Each row's stats: eight lanes a row and head, four rows of a head a warp; bound by memory.
template <class N>
__global__ void stats_kernel(flash::HeadRows<const N> out, flash::HeadRows<const N> dout, const float* lse,
                             int64_t lse_stride, int rows_a_seq, int heads, float* stats) {
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
  to[0] = lse[head * lse_stride + row] * flash::kLog2E;
  to[kTile] = sum;
}

template <class T>
void launch_stats(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& stats) {
  using N = cuda::Native<T>;
  constexpr int kStatsThreads = 256, kRows = kStatsThreads / 8;
  static_assert(kTile % kRows == 0);
  const AttentionArgs& forward = args.forward;
  const auto read = [](const TensorView& view) {
    return flash::HeadRows<const N>{cuda::native<T>(view), view.row_stride};
  };
  const auto blocks = static_cast<unsigned>(forward.q.rows() / kRows * forward.heads);
  cuda::launch({dim3(blocks), kStatsThreads, cuda::stream_of(ctx)}, stats_kernel<N>, read(forward.out), read(args.dout),
               forward.lse.ptr<float>(), forward.lse.row_stride, int(forward.seq.max_len), int(forward.heads),
               stats.ptr<float>());
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
void hopper_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& scratch) {
  using namespace hopper;
  using N = cuda::Native<T>;
  const AttentionArgs& forward = args.forward;
  launch_stats<T>(ctx, args, scratch);
  const auto read = [](const TensorView& view) { return cuda::map_tiles(view, kTile); };
  const auto write = [](const TensorView& view) { return cuda::map_tiles(view, kHalf); };
  const Maps maps{read(forward.q), read(forward.k), read(forward.v), read(args.dout),
                  write(args.dq),  write(args.dk),  write(args.dv)};
  Params p = params_of(forward);
  p.stats = scratch.ptr<float>();
  const auto start = [&]<bool kKeys>(int64_t heads) {
    const int64_t blocks = std::min<int64_t>(p.seqs * heads * p.tiles, ctx.cuda->num_units());
    cuda::launch({dim3(unsigned(blocks)), kThreads, cuda::stream_of(ctx), Layout<kKeys>::kBytes},
                 gradient_kernel<N, kKeys>, maps, p);
  };
  start.template operator()<true>(forward.kv_heads);
  start.template operator()<false>(forward.heads);
}

template void hopper_backward<Bf16>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void hopper_backward<Fp16>(ExecContext&, const AttentionGradArgs&, const TensorView&);

}  // namespace gradmill
