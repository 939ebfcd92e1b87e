// SPDX-License-Identifier: Apache-2.0
// Flash attention, backward, for sequences of up to 256 keys, on Hopper, with all of a head in shared memory. Two
// warpgroups process blocks of 64 rows: first each owns queries and loops over keys for dq, then it owns keys and loops
// over queries for dk and dv. Scores are computed twice (seven GEMMs instead of five), but the warpgroups exchange
// nothing, rarely synchronise, and under a causal mask have the same work: blocks 0 and 3, or 1 and 2. While one
// computes weights, the other multiplies.
// The dropout mask is drawn once for both loops, with one bit per weight. Queries and the gradients of outputs are
// loaded one head in advance; keys and values too, as soon as those of the second loop are in registers.
// For a head of 256 causal tokens, warps issue about 50,000 instructions, a fifth of them for the dropout mask, and the
// matrix units work for 9,000 cycles. An H200 moves the head's 256 KB in 14,000 cycles.
#include "cuda/launch.h"
#include "ops/attention/flash_launch.h"
#include "ops/attention/flash_short_begin.cuh"

namespace gradmill::flash {
namespace {

// kGrouped: several heads share keys, and dk and dv are parked while dq of each head is computed.
template <class N, bool kDropout, bool kGrouped>
__global__ void __launch_bounds__(kGroupThreads, 1)
    short_wgmma_kernel(const __grid_constant__ GradParams<N> grad, const int items) {
  extern __shared__ __align__(1024) uint4 head_in_shared_memory[];
  const Params<N>& p = grad.forward;
  const HeadLayout at{cuda::shared_address(head_in_shared_memory)};
  Dropout& rule = *reinterpret_cast<Dropout*>(reinterpret_cast<char*>(head_in_shared_memory) + HeadLayout::kRule);
  if (threadIdx.x == 0) rule = Dropout(p);
  __syncthreads();
  const int warp = uniform(int(threadIdx.x) / 32);
  const auto place_of = [&](int turn) {
    const int block = (turn == 0 ? warp / 4 : kBlocks - 1 - warp / 4) * kBlock;
    return Place{block, block + warp % 4 * kStripRows};
  };
  const float keep_scale = kDropout ? rule.scale : 1;
  const float kept_share = kDropout ? float(65536 - rule.threshold) / 65536 : 1;

  constexpr int kTurns = 2;
  const auto draw = [&](const Unit& of) {
#pragma unroll 1
    for (int turn = 0; turn < kTurns; ++turn) draw_strip(p, of, place_of(turn), rule, at);
  };

  int item = int(blockIdx.x), home = 0;
  Unit unit(p, item);
  load_queries(grad, unit, at, home);
  load_keys(p, unit, at);
  const OutRows<N> first_out(p, unit, place_of(0), place_of(1));
  if (kDropout) draw(unit);  // while the loads are in flight
  cuda::wait_for_copies();
  __syncthreads();
  first_out.store(at, home, unit.seq.q_len, kept_share);

  // dk and dv, in local memory, between heads that share keys.
  float4 parked[kGrouped ? kTurns : 1][kWidthTiles][2];
#pragma unroll 1
  while (true) {
    const bool first = !kGrouped || unit.head == unit.kv_head * p.group;
    const bool last = !kGrouped || unit.head + 1 == (unit.kv_head + 1) * p.group;
    const bool more = !last || item + int(gridDim.x) < items;
    item += last && more ? int(gridDim.x) : 0;
    Unit next(p, item);
    if (!last) next.head = unit.head + 1;
    if (!more) next.seq.q_len = next.seq.k_len = 0;  // then no row is read
    cuda::wait_for_copies();
    cuda::show_to_products();
    __syncthreads();
    // All data of the head has arrived.
    if (more) {
      load_queries(grad, next, at, home ^ 1);
      prefetch_out(p, next);
    }
    cuda::commit_copies();
    const float scale2 = p.scale * kLog2E;
#pragma unroll 1
    for (int turn = 0; turn < kTurns; ++turn) {
      const Place place = place_of(turn);
      float dq[kWidthTiles][4] = {};
      walk_over_keys<N, kDropout>(unit.seq, place, at, home, scale2, dq);
      store_gradient(at.stage(warp), dq, p.scale * keep_scale, grad.dq, unit.seq.q_begin + place.strip,
                     unit.head * p.head_dim, unit.seq.q_len - place.strip, p.head_dim);
    }
#pragma unroll 1
    for (int turn = kTurns - 1; turn >= 0; --turn) {
      const Place place = place_of(turn);
      OwnRows k, v;
      load_own(at.k(), place.strip, k);
      load_own(at.v(), place.strip, v);
      if (turn == 0 && last) {
        // The rows are in registers now, and their shared memory is no longer read.
        __syncthreads();
        load_keys(p, next, at);
      }
      cuda::commit_copies();  // the group may be empty
      float dk[kWidthTiles][4] = {}, dv[kWidthTiles][4] = {};
      if (!first) fetch(parked[turn], dk, dv);
      walk_over_queries<N, kDropout>(unit.seq, place, at, home, scale2, k, v, dk, dv);
      if (!last) {
        park(dk, dv, parked[turn]);
        continue;
      }
      const int row = unit.seq.k_begin + place.strip, rows = unit.seq.k_len - place.strip;
      const int column = unit.kv_head * p.head_dim;
      store_gradient(at.stage(warp), dv, keep_scale, grad.dv, row, column, rows, p.head_dim);
      store_gradient(at.stage(warp), dk, p.scale * keep_scale, grad.dk, row, column, rows, p.head_dim);
    }
    if (!more) {
      cuda::wait_for_copies();
      return;
    }
    const OutRows<N> out(p, next, place_of(0), place_of(1));
    cuda::wait_for_groups<1>();
    __syncthreads();
    // No thread reads data of this head any more, and the queries of the next one have arrived.
    home ^= 1;
    unit = next;
    if (kDropout) draw(unit);
    out.store(at, home, unit.seq.q_len, kept_share);
  }
}

}  // namespace

template <class T>
void short_backward_wgmma(ExecContext& ctx, const AttentionGradArgs& args, int items) {
  using N = cuda::Native<T>;
  const auto p = make_params<T>(ctx, args, TensorView());
  const dim3 grid(unsigned(std::min<int64_t>(items, ctx.cuda->num_units())));
  const cuda::LaunchConfig config{grid, kGroupThreads, cuda::stream_of(ctx), HeadLayout::kBytes};
  const auto launch = [&]<bool kDropout, bool kGrouped>() {
    cuda::launch(config, short_wgmma_kernel<N, kDropout, kGrouped>, p, items);
  };
  const bool grouped = p.forward.group > 1;
  if (args.forward.dropout) {
    grouped ? launch.template operator()<true, true>() : launch.template operator()<true, false>();
  } else {
    grouped ? launch.template operator()<false, true>() : launch.template operator()<false, false>();
  }
}

template void short_backward_wgmma<Bf16>(ExecContext&, const AttentionGradArgs&, int);
template void short_backward_wgmma<Fp16>(ExecContext&, const AttentionGradArgs&, int);

}  // namespace gradmill::flash
