// SPDX-License-Identifier: Apache-2.0
// Attention's backward on Hopper, with warpgroup products of tiles that the copy engine loads. As in
// attention_flash_backward.cu, one kernel owns queries and loops over keys (attention_hopper_queries.cu), and the
// other, in this file, owns keys and loops over the queries of all heads that share them. This takes seven GEMMs
// instead of five, but needs no atomics, no fp32 accumulator in memory and no shared memory between one product and the
// next, and the results never depend on order.
// 64 x 64 scores take 128 cycles of the matrix units per product, of which there are four, and 256 of the exponential
// unit. Two warpgroups take turns: one multiplies while the other computes weights. Blocks are persistent: the rows of
// the next tile are loaded while the current one is processed.
#include <algorithm>

#include "cuda/launch.h"
#include "cuda/tensor_map.h"
#include "ops/attention/attention_hopper.h"
#include "ops/attention/attention_hopper_keys.cuh"
#include "ops/attention/flash_params.cuh"

namespace gradmill {
namespace hopper {
namespace {

#ifdef GRADMILL_HOPPER_CODE

// Initialises the accumulators of scores, or of v·dout, with one value per query.
__device__ void start_with(uint32_t values, Scores<kHalf>& d) {
#pragma unroll
  for (int j = 0; j < kHalf / 8; ++j) {
    const float2 value = cuda::load_shared_pair(values + uint32_t(8 * j) * 4);
    d[j][0] = d[j][2] = value.x;
    d[j][1] = d[j][3] = value.y;
  }
}

// Computes the weights and their gradients for one step from this thread's scores `s` and the products `dp` of v and
// dout, while `dp` is still being computed. On the diagonal, a key is seen only by queries from its own position on.
template <bool kDiagonal>
__device__ void weigh_queries(float scale_log2, int key, int query, Scores<kHalf>& s, Scores<kHalf>& dp) {
#pragma unroll
  for (int i = 0; i < kHalf / 2; ++i) {
    const bool hidden = kDiagonal && key + i / 2 % 2 * 8 > 8 * (i / 4) + query + i % 2;
    float& score = s[i / 4][i % 4];
    const float weight = cuda::exp2_fast(score * scale_log2);
    score = hidden ? 0 : weight;
  }
  cuda::wait_for_products<0>();
  cuda::hold_in_place(dp);
#pragma unroll
  for (int i = 0; i < kHalf / 2; ++i) dp[i / 4][i % 4] *= s[i / 4][i % 4];
}

template <class N>
__device__ void walk_over_queries(const KeysLayout& shared, const Maps& maps, const Params& p) {
  const auto [warpgroup, lane, own, query] = Seat();
  const int strip = own - warpgroup * kHalf;  // this thread's first row within its warpgroup
  const float scale_log2 = p.scale * flash::kLog2E;
  const Turns<kKeyGroups> turns(warpgroup);
  Owned<KeysLayout> owned(shared, warpgroup);
  cuda::RingPlace<KeysLayout::kStages> place;
#pragma unroll 1
  while (owned.wait()) {
    uint32_t k[kHeadDim / 16][4], v[kHeadDim / 16][4];
    load_left(owned.rows(0), k);
    load_left(owned.rows(1), v);
    float dk[8][4] = {}, dv[8][4] = {};
    uint32_t left[kHalf / 16][4], dleft[kHalf / 16][4];
    int last = 0;  // the stage of the step whose products with queries and dout are still pending
    const auto add_gradients = [&] {
      multiply_rows<N>(dv, left, cuda::matrix_at(shared.tile(last, 1)));
      multiply_rows<N>(dk, dleft, cuda::matrix_at(shared.tile(last, 0)));
    };
    const auto release = [&] {
      cuda::hold_in_place(dk);
      cuda::hold_in_place(dv);
      cuda::barrier_arrive(shared.signals.empty(last));  // every lane has read stats for itself
    };
    // kFirst: there is no previous step.
    const auto step = [&]<bool kFirst, bool kDiagonal>() {
      Scores<kHalf> s, dp;
      cuda::barrier_wait(shared.signals.full(place.stage), place.parity);
      uint32_t stats = shared.stats(place.stage) + uint32_t(query) * 4;
      asm volatile("" : "+r"(stats));  // makes the compiler use one address instead of one per load
      start_with(stats, s);
      start_with(stats + kStatsBytes / 2, dp);
      turns.wait();
      if constexpr (!kFirst) add_gradients();
      add_columns<N>(s, k, cuda::matrix_at(shared.tile(place.stage, 0)));
      add_columns<N>(dp, v, cuda::matrix_at(shared.tile(place.stage, 1)));
      turns.pass_on();
      cuda::wait_for_products<1>();
      cuda::hold_in_place(s);
      if constexpr (!kFirst) release();
      weigh_queries<kDiagonal>(scale_log2, strip, query, s, dp);
      to_left<N>(s, left);
      to_left<N>(dp, dleft);
      last = place.stage;
      place.advance();
    };
    const auto pass_over_step = [&] {
      cuda::barrier_wait(shared.signals.full(place.stage), place.parity);
      turns.wait();
      turns.pass_on();
      cuda::barrier_arrive(shared.signals.empty(place.stage));
      place.advance();
    };
    // The queries of a head begin at the diagonal, where the keys of the second warpgroup are seen only by the second
    // half.
    const int steps = owned.item(ItemField::steps), steps_a_head = steps / p.group;
    int next_diagonal = steps, i = 1;
    if (p.causal) {
      if (warpgroup == 1) pass_over_step();
      step.template operator()<true, true>();
      i += warpgroup;
      next_diagonal = steps_a_head;
    } else {
      step.template operator()<true, false>();
    }
    owned.release_before();
#pragma unroll 1
    while (i < steps) {
      if (i == next_diagonal) {
        if (warpgroup == 1) pass_over_step();
        step.template operator()<false, true>();
        i += 1 + warpgroup;
        next_diagonal += steps_a_head;
      } else {
        step.template operator()<false, false>();
        ++i;
      }
    }
    add_gradients();
    cuda::wait_for_products<0>();
    release();
    owned.begin_results();
    stage_result<N>(dk, p.scale, owned.rows(0));
    stage_result<N>(dv, 1, owned.rows(1));
    const int row = owned.item(ItemField::row) + warpgroup * kHalf, column = owned.item(ItemField::head) * kHeadDim;
    owned.end_results([&] {
      cuda::store_tile(maps.dk, column, row, owned.rows(0));
      cuda::store_tile(maps.dv, column, row, owned.rows(1));
    });
  }
  owned.finish();
}

// The producer: one thread starts all copies.
__device__ void bring_queries(const KeysLayout& shared, const Maps& maps, const Params& p) {
  cuda::RingPlace<2> own;
  cuda::RingPlace<KeysLayout::kStages> place;
  for (int round = 0;; ++round, own.advance()) {
    const OwnKeys item = OwnKeys::of(p, round);
    const uint32_t own_full = shared.signals.own_full(own.stage);
    const auto publish = [&](ItemField what, int value) {
      cuda::store_shared(shared.signals.item(own.stage) + uint32_t(what) * 4, uint32_t(value));
    };
    cuda::barrier_wait(shared.signals.own_empty(own.stage), own.parity ^ 1);  // does not wait in the first round
    publish(ItemField::steps, item.steps);
    publish(ItemField::row, item.row(p));
    publish(ItemField::head, item.head);
    if (item.steps == 0) {
      cuda::barrier_arrive(own_full);
      return;
    }
    cuda::barrier_expect(own_full, 2 * kTileBytes);
    cuda::copy_tile(shared.own(own.stage, 0), maps.k, item.head * kHeadDim, item.row(p), own_full);
    cuda::copy_tile(shared.own(own.stage, 1), maps.v, item.head * kHeadDim, item.row(p), own_full);
    const int first = p.causal ? 2 * item.tile : 0;
    int head = item.head * p.group, half = first;
#pragma unroll 1
    for (int step = 0; step < item.steps; ++step, place.advance()) {
      const uint32_t full = shared.signals.full(place.stage);
      const int row = item.seq * p.tiles * kTile + half * kHalf;
      cuda::barrier_wait(shared.signals.empty(place.stage), place.parity ^ 1);
      cuda::show_to_products();  // orders the other threads' reads of stats before the copies; they would pay 2% for it
      cuda::barrier_expect(full, 2 * kHalfTileBytes + kStatsBytes);
      cuda::copy_tile(shared.tile(place.stage, 0), maps.q, head * kHeadDim, row, full);
      cuda::copy_tile(shared.tile(place.stage, 1), maps.dout, head * kHeadDim, row, full);
      cuda::copy_bytes(shared.stats(place.stage), p.score_start(head, row), kStatsBytes / 2, full);
      cuda::copy_bytes(shared.stats(place.stage) + kStatsBytes / 2, p.product_start(head, row), kStatsBytes / 2, full);
      if (++half < 2 * p.tiles) continue;
      half = first;
      ++head;
    }
  }
}

#endif  // GRADMILL_HOPPER_CODE

template <class N>
__global__ void __launch_bounds__(kKeyThreads, 1)
    key_gradient_kernel(const __grid_constant__ Maps maps, const __grid_constant__ Params p) {
#ifdef GRADMILL_HOPPER_CODE
  extern __shared__ uint4 memory[];
  const KeysLayout shared(memory);
  shared.signals.init(kWarpgroup);
  if (threadIdx.x >= kKeyGroups * kWarpgroup) {
    cuda::give_registers<kKeyCopierRegisters>();
    if (threadIdx.x == kKeyGroups * kWarpgroup) bring_queries(shared, maps, p);
  } else {
    cuda::take_registers<kKeyRegisters>();
    walk_over_queries<N>(shared, maps, p);
  }
#else
  __trap();
#endif
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
         hopper::is_tileable(args.k) && hopper::is_tileable(args.v) && hopper::is_tileable(args.out) &&
         args.lse.row_stride % 4 == 0;  // the copy engine reads lse
}

int64_t hopper_backward_scratch(const AttentionGradArgs& args) { return 2 * args.forward.lse.numel(); }

template <class T>
void hopper_backward(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& scratch) {
  using namespace hopper;
  const AttentionArgs& forward = args.forward;
  hopper_query_gradients<T>(ctx, args, scratch);
  const auto map = [](const TensorView& view) { return cuda::map_tiles(view, kHalf); };
  const Maps maps{.q = map(forward.q),
                  .k = cuda::map_tiles(forward.k, kTile),
                  .v = cuda::map_tiles(forward.v, kTile),
                  .dout = map(args.dout),
                  .dk = map(args.dk),
                  .dv = map(args.dv)};
  Params p = params_of(forward);
  p.stats = scratch.ptr<float>();
  const int64_t blocks = std::min<int64_t>(p.seqs * forward.kv_heads * p.tiles, ctx.cuda->num_units());
  cuda::launch({dim3(unsigned(blocks)), kKeyThreads, cuda::stream_of(ctx), KeysLayout::kBytes},
               key_gradient_kernel<cuda::Native<T>>, maps, p);
}

template void hopper_backward<Bf16>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void hopper_backward<Fp16>(ExecContext&, const AttentionGradArgs&, const TensorView&);

}  // namespace gradmill
