// SPDX-License-Identifier: Apache-2.0
// Flash attention, backward, for sequences of up to 256 keys. A block owns all keys of a sequence and head and loops
// over tiles of its queries. So weights and their gradients are computed once: five GEMMs instead of seven, one draw of
// dropout bits, and no separate pass for the sums of out * dout. Deterministic, without atomics.
// A warp owns two strips of 16 keys, one from either end, so that all warps have the same work under a causal mask. The
// gradients of a tile's scores go through shared memory to the warps that sum dq. They do this one tile later, so that
// a tile needs only one barrier. For 64 queries a warp reads 64 KB of shared memory for 320 mma; at 128 bytes and about
// 2600 FLOP per cycle both take about the same time.
// The accumulators fill half of a multiprocessor's registers. Only one block fits, and no other block can hide its
// waits. So a block processes several heads and loads the keys, values and first queries of the next head in advance.
#include "cuda/launch.h"
#include "ops/attention/flash_launch.h"
#include "ops/attention/flash_short_gradient.cuh"

namespace gradmill::flash {
namespace {

template <int kCount>
__device__ void scale_strip(float (&acc)[kCount][4], float factor) {
#pragma unroll
  for (int i = 0; i < 4 * kCount; ++i) acc[i / 4][i % 4] *= factor;
}

// begin_unit() waits for these loads.
template <class N>
__device__ void prefetch_outputs(const GradParams<N>& grad, const Unit& unit) {
  const int row = int(threadIdx.x), column = unit.head * grad.forward.head_dim;
  if (row >= unit.seq.q_len) return;
  cuda::prefetch(grad.forward.out.at(unit.seq.q_begin + row, column));
  cuda::prefetch(grad.dout.at(unit.seq.q_begin + row, column));
}

// Loads everything else that a unit needs before its first tile.
template <class N, bool kDropout>
__device__ void begin_unit(const GradParams<N>& grad, const Unit& unit, const ShortLayout& at, const Dropout& rule) {
  if (kDropout && threadIdx.x < kShortLen / 8) {
    const auto block = static_cast<uint32_t>(unit.head * grad.forward.dropout_columns / 8) + threadIdx.x;
    cuda::store_shared(at.blocks() + threadIdx.x * 16, philox_block(rule, block));
  }
  load_vectors(grad, unit.seq, unit.head, at);
}

template <class N, bool kDropout>
__global__ void __launch_bounds__(kGradThreads, 1) short_kernel(const GradParams<N> grad, const int items) {
  extern __shared__ uint4 shared[];
  const Params<N>& p = grad.forward;
  const ShortLayout at{cuda::shared_address(shared)};
  // Read again for every use, because registers are scarce.
  Dropout* const rule = reinterpret_cast<Dropout*>(reinterpret_cast<char*>(shared) + ShortLayout::kRule);
  if (threadIdx.x == 0) *rule = Dropout(p);
  const int warp = uniform(int(threadIdx.x) / 32);
  const int strips[kStrips] = {warp * kStripRows, kShortLen - (warp + 1) * kStripRows};

  int item = int(blockIdx.x), home = 0, stage = 0;
  Unit unit(p, item);
  load_keys<kGradThreads>(p, unit, p.k, at.k(home));
  load_keys<kGradThreads>(p, unit, p.v, at.v(home));
  load_queries<kGradThreads>(grad, unit, 0, at.q(stage));
  __syncthreads();  // for the rule
#pragma unroll 1
  while (true) {
    float dk[kStrips][kShortWidth / 8][4] = {}, dv[kStrips][kShortWidth / 8][4] = {};
    const int end_head = unit.head + p.group;
    const bool more = item + int(gridDim.x) < items;
    item = more ? item + int(gridDim.x) : item;
    const Unit next(p, item);
#pragma unroll 1
    for (;; ++unit.head) {
      begin_unit<N, kDropout>(grad, unit, at, *rule);
      const bool first = unit.head == end_head - p.group, last = unit.head + 1 == end_head;
      const int tiles = unit.tiles();
#pragma unroll 1
      for (int tile = 0; tile < tiles; ++tile, stage ^= 1) {
        // The next keys may still be in flight.
        if (tile == 1 && first && more) {
          cuda::wait_for_groups<1>();
        } else {
          cuda::wait_for_copies();
        }
        __syncthreads();
        if (tile + 1 < tiles) {
          load_queries<kGradThreads>(grad, unit, tile + 1, at.q(stage ^ 1));
        } else if (!last) {
          Unit following = unit;
          ++following.head;
          load_queries<kGradThreads>(grad, following, 0, at.q(stage ^ 1));
        } else if (more) {
          load_queries<kGradThreads>(grad, next, 0, at.q(stage ^ 1));
        }
        cuda::commit_copies();
        if (tile == 0 && first && more) {
          load_keys<kGradThreads>(p, next, p.k, at.k(home ^ 1));
          load_keys<kGradThreads>(p, next, p.v, at.v(home ^ 1));
          cuda::commit_copies();
          prefetch_outputs(grad, next);
        }
        steps_of_tile<N, kDropout>(p, unit.seq, tile, strips, *rule, at, stage, at.k(home), dk, dv);
        if (tile > 0) query_gradient(grad, unit.seq, unit.head, tile - 1, at.dscores(stage ^ 1), at.k(home));
      }
      __syncthreads();
      query_gradient(grad, unit.seq, unit.head, tiles - 1, at.dscores(stage ^ 1), at.k(home));
      if (last) break;
    }
    // No other warp reads this warp's rows of v.
#pragma unroll
    for (int m = 0; m < kStrips; ++m) {
      const uint32_t own = at.v(home) + strips[m] * Tile<kShortWidth>::kRowBytes;
      const int row = unit.seq.k_begin + strips[m], rows = unit.seq.k_len - strips[m];
      scale_strip(dv[m], kDropout ? rule->scale : 1);
      store_strip(own, dv[m], grad.dv, row, unit.kv_head * p.head_dim, rows, p.head_dim);
      scale_strip(dk[m], p.scale);
      store_strip(own, dk[m], grad.dk, row, unit.kv_head * p.head_dim, rows, p.head_dim);
    }
    if (!more) return;
    home ^= 1;
    unit = next;
  }
}

// Data-centre GPUs have enough shared memory; Hopper and later ones have enough for the keys of two heads.
bool has_large_shared_memory(const ExecContext& ctx) {
  const int capability = ctx.cuda->compute_capability();
  return capability == 80 || capability == 87 || (capability >= 90 && capability < 120);
}

// Whether code with Hopper's own instructions was built, and the GPU has them.
bool has_warpgroup_products(const ExecContext& ctx) {
#ifdef GRADMILL_WITH_WGMMA
  return ctx.cuda->compute_capability() == 90;
#else
  return false;
#endif
}

}  // namespace

bool is_short(const ExecContext& ctx, const AttentionArgs& args) {
  const bool fits = args.head_dim > kShortWidth / 2 && args.head_dim <= kShortWidth && args.seq.max_len <= kShortLen;
  return fits && args.q.rows() > 0 && args.k.rows() > 0 && has_large_shared_memory(ctx);
}

namespace {

int64_t items_of(const AttentionArgs& forward) { return forward.kv_heads * forward.seq.max_seqs; }

// The heads of a group are processed one after the other, so there must be enough other blocks.
bool suits_short_backward(const ExecContext& ctx, const AttentionArgs& forward) {
  return is_short(ctx, forward) && (forward.heads == forward.kv_heads || items_of(forward) >= ctx.cuda->num_units());
}

}  // namespace

// Only the kernel for Hopper was verified to allow this.
bool short_backward_can_overwrite(ExecContext& ctx, const AttentionGradArgs& args) {
  if (!suits_short_backward(ctx, args.forward) || !has_warpgroup_products(ctx)) return false;
  if (args.dout.dtype == DType::bf16) return make_params<Bf16>(ctx, args, TensorView()).forward.vectors;
  return args.dout.dtype == DType::fp16 && make_params<Fp16>(ctx, args, TensorView()).forward.vectors;
}

template <class T>
bool short_backward(ExecContext& ctx, const AttentionGradArgs& args) {
  const AttentionArgs& forward = args.forward;
  const int64_t items = items_of(forward), units = ctx.cuda->num_units();
  if (!suits_short_backward(ctx, forward)) return false;
  const auto p = make_params<T>(ctx, args, TensorView());
  if (!p.forward.vectors) return false;
  if (has_warpgroup_products(ctx)) {
    short_backward_wgmma<T>(ctx, args, int(items));
    return true;
  }
  const bool several = items > units && ctx.cuda->compute_capability() >= 90;
  const dim3 grid(unsigned(several ? units : items));
  const cuda::LaunchConfig config{grid, kGradThreads, cuda::stream_of(ctx),
                                  ShortLayout::kBytes + (several ? ShortLayout::kHomeBytes : 0)};
  if (forward.dropout) {
    cuda::launch(config, short_kernel<cuda::Native<T>, true>, p, int(items));
  } else {
    cuda::launch(config, short_kernel<cuda::Native<T>, false>, p, int(items));
  }
  return true;
}

template bool short_backward<Bf16>(ExecContext&, const AttentionGradArgs&);
template bool short_backward<Fp16>(ExecContext&, const AttentionGradArgs&);

}  // namespace gradmill::flash
