// SPDX-License-Identifier: Apache-2.0
// Flash attention, backward, for sequences of up to 256 keys, on Hopper: as attention_flash_short.cu, but products are
// made by warpgroups from shared memory. So no registers hold operands, and with 16 keys a warp the accumulators leave
// room for 16 warps on a multiprocessor, twice as many: while some draw dropout's bits or take exponentials, the matrix
// units work for others.
// A warpgroup owns 64 keys. Tiles of queries come last first: under a causal mask all warpgroups begin together, and
// those that have done their part store dk and dv and sum dq while others go on.
// For 32 queries and 16 keys a warp issues about 370 instructions: for 384 heads of 256 causal tokens some 31,000 issue
// slots of each scheduler of an H200. Three heads of a multiprocessor are 480 KB of reads and 288 KB of writes, which
// takes as long: keys, values and first queries of the next head are loaded meanwhile.
#include "cuda/launch.h"
#include "ops/flash_launch.h"
#include "ops/flash_short_wgmma.cuh"

namespace gradmill::flash {
namespace {

// HalfVectors will ask for these.
template <class N>
__device__ void prefetch_rows(const GradParams<N>& grad, const Unit& unit) {
  const int thread = afresh(int(threadIdx.x)), row = thread % kShortLen, column = unit.head * grad.forward.head_dim;
  if (row >= unit.seq.q_len) return;
  const int at = unit.seq.q_begin + row;
  cuda::prefetch(thread < kShortLen ? static_cast<const N*>(grad.forward.out.at(at, column))
                                    : grad.dout.at(at, column));
}

// philox_block() of a head's keys, by the first warp.
template <class N>
__device__ void store_blocks(const Params<N>& p, const Unit& unit, const ShortLayout& at, const Dropout& rule) {
  if (threadIdx.x < kShortLen / 8) {
    const auto block = static_cast<uint32_t>(unit.head * p.dropout_columns / 8) + threadIdx.x;
    cuda::store_shared(at.blocks() + threadIdx.x * 16, philox_block(rule, block));
  }
}

// A warp's rows of dk or dv, by way of its rows of v, which nobody reads any more.
template <class N>
__device__ void store_keys(const Params<N>& p, const Unit& unit, const Place& place, uint32_t v, float factor,
                           float (&gradient)[kShortWidth / 8][4], const HeadRows<N>& to) {
  scale_all(reinterpret_cast<float(&)[1][kShortWidth / 8][4]>(gradient), factor);
  store_strip(v + place.strip * Tile<kShortWidth>::kRowBytes, gradient, to, unit.seq.k_begin + place.strip,
              unit.kv_head * p.head_dim, unit.seq.k_len - place.strip, p.head_dim);
}

template <class N, bool kDropout>
__global__ void __launch_bounds__(kGroupThreads, 1)
    short_wgmma_kernel(const __grid_constant__ GradParams<N> grad, const int items) {
  extern __shared__ __align__(1024) uint4 tiles_of_products[];
  const Params<N>& p = grad.forward;
  const ShortLayout at{cuda::shared_address(tiles_of_products)};
  // Read again at every use: registers are scarce.
  Dropout* const rule = reinterpret_cast<Dropout*>(reinterpret_cast<char*>(tiles_of_products) + ShortLayout::kRule);
  if (threadIdx.x == 0) *rule = Dropout(p);
  __syncthreads();
  const int warp = uniform(int(threadIdx.x) / 32);
  const Place place{warp / 4, warp * kStripRows};

  int item = int(blockIdx.x), home = 0, stage = 0;
  Unit unit(p, item);
  load_keys<kGroupThreads>(p, unit, p.k, at.k(home));
  load_keys<kGroupThreads>(p, unit, p.v, at.v(home));
  load_queries<kGroupThreads>(grad, unit, unit.tiles() - 1, at.q(stage));
  const auto keep_scale = [&] { return kDropout ? rule->scale : 1; };
  const auto kept_share = [&] { return kDropout ? float(65536 - rule->threshold) / 65536 : 1; };
  const auto begin_head = [&](const Unit& head) {
    if constexpr (kDropout) store_blocks(p, head, at, *rule);
    const HalfVectors<N> first(grad, head, 0, head.seq.q_len), second(grad, head, 1, head.seq.q_len);
    first.store(at, 0, head.seq.q_len, p.head_dim, kept_share());
    second.store(at, 1, head.seq.q_len, p.head_dim, kept_share());
  };
  begin_head(unit);
#pragma unroll 1
  while (true) {
    const int end_head = unit.head + p.group;
    const bool more = item + int(gridDim.x) < items;
    item = more ? item + int(gridDim.x) : item;
    const Unit next(p, item);
    float dk[kShortWidth / 8][4] = {}, dv[kShortWidth / 8][4] = {};
    bool stored = false;
#pragma unroll 1
    for (;; ++unit.head) {
      const bool first = unit.head == end_head - p.group, last = unit.head + 1 == end_head;
      const int tiles = unit.tiles();
      uint32_t keep = ~0u;
      bool drawn = false;
#pragma unroll 1
      for (int tile = tiles - 1;; --tile, stage ^= 1) {
        // The next keys, or values, may still be on their way.
        const int step = tiles - 1 - tile;
        if (first && more && (step == 1 || step == 2)) {
          cuda::wait_for_groups<1>();
        } else {
          cuda::wait_for_copies();
        }
        cuda::show_to_products();
        __syncthreads();
        if (tile < 0) break;
        if (tile > 0) {
          load_queries<kGroupThreads>(grad, unit, tile - 1, at.q(stage ^ 1));
        } else if (!last) {
          Unit beside = unit;
          ++beside.head;
          load_queries<kGroupThreads>(grad, beside, tiles - 1, at.q(stage ^ 1));
        } else if (more) {
          load_queries<kGroupThreads>(grad, next, next.tiles() - 1, at.q(stage ^ 1));
        }
        cuda::commit_copies();
        if (first && more && step < 2) {
          if (step == 0) {
            load_keys<kGroupThreads>(p, next, p.k, at.k(home ^ 1));
            prefetch_rows(grad, next);
          }
          if (step == 1 || tiles == 1) load_keys<kGroupThreads>(p, next, p.v, at.v(home ^ 1));
          cuda::commit_copies();
        }
        const int block = place.group * kGroupKeys;
        if (!last || unit.seq.sees_any({0, (tile + 1) * kTileQueries}, {block, block + kGroupKeys})) {
          group_tile<N, kDropout>(p, unit.seq, tile, place, *rule, at, stage, at.k(home), keep, drawn, dk, dv);
        } else if (!stored) {
          store_keys(p, unit, place, at.v(home), keep_scale(), dv, grad.dv);
          store_keys(p, unit, place, at.v(home), p.scale * keep_scale(), dk, grad.dk);
          stored = true;
        }
        if (step > 0 && place.group == kQueryGroup) {
          group_query_gradient(grad, unit, tile + 1, place, at.dscores(stage ^ 1), at.k(home), p.scale * keep_scale());
        }
      }
      if (place.group == kQueryGroup) {
        group_query_gradient(grad, unit, 0, place, at.dscores(stage ^ 1), at.k(home), p.scale * keep_scale());
      }
      if (last) break;
      Unit beside = unit;
      ++beside.head;
      begin_head(beside);
    }
    // begin_head(next), behind the stores of this one's gradients.
    if (!stored) store_keys(p, unit, place, at.v(home), keep_scale(), dv, grad.dv);
    const int rows = more ? next.seq.q_len : 0;
    const HalfVectors<N> first(grad, next, 0, rows), second(grad, next, 1, rows);
    if (!stored) store_keys(p, unit, place, at.v(home), p.scale * keep_scale(), dk, grad.dk);
    if (!more) return;
    if constexpr (kDropout) store_blocks(p, next, at, *rule);
    first.store(at, 0, rows, p.head_dim, kept_share());
    second.store(at, 1, rows, p.head_dim, kept_share());
    home ^= 1;
    unit = next;
  }
}

}  // namespace

template <class T>
void short_backward_wgmma(ExecContext& ctx, const AttentionGradArgs& args, int items) {
  using N = cuda::Native<T>;
  const auto p = make_params<T>(ctx, args, TensorView());
  const dim3 grid(unsigned(std::min<int64_t>(items, ctx.cuda->num_units())));
  const cuda::LaunchConfig config{grid, kGroupThreads, cuda::stream_of(ctx),
                                  ShortLayout::kBytes + ShortLayout::kHomeBytes};
  if (args.forward.dropout) {
    cuda::launch(config, short_wgmma_kernel<N, true>, p, items);
  } else {
    cuda::launch(config, short_wgmma_kernel<N, false>, p, items);
  }
}

template void short_backward_wgmma<Bf16>(ExecContext&, const AttentionGradArgs&, int);
template void short_backward_wgmma<Fp16>(ExecContext&, const AttentionGradArgs&, int);

}  // namespace gradmill::flash
