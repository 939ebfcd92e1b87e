// SPDX-License-Identifier: Apache-2.0
// The gradients of attention's queries on Hopper. Each block also stores what the gradients of keys and values need
// about its rows (Params::stats), computed from the log-sum-exp and the sums of out * dout. 64 x 64 scores take 128
// cycles of the matrix units per product, of which there are three, and 256 of the exponential unit: while one
// warpgroup computes weights, the other two multiply.
#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/tensor_map.h"
#include "ops/attention/attention_hopper.h"
#include "ops/attention/attention_hopper_queries.cuh"
#include "ops/attention/flash_params.cuh"

namespace gradmill {
namespace hopper {
namespace {

// Owned queries, with their rows of dout and out.
using Layout = QueriesLayout<3, true, kHalf, 5>;
enum : int { kQ, kDout, kOut };

struct Lse {
  const float* data;  // (H, N)
  int64_t stride;
};

#ifdef GRADMILL_HOPPER_CODE

// The sum of out * dout of a row, computed by the four lanes that share it: each has two chunks of eight columns.
template <class N>
__device__ float product_of_row(uint32_t out, uint32_t dout, int row, int lane) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t at = uint32_t(row * cuda::kTileRowBytes + ((lane % 4 + 4 * i) ^ row % 8) * 16);
    const uint4 a = cuda::load_shared_16(out + at), b = cuda::load_shared_16(dout + at);
    const uint32_t left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 x = cuda::unpack_pair<N>(left[e]), y = cuda::unpack_pair<N>(right[e]);
      sum = fmaf(x.x, y.x, fmaf(x.y, y.y, sum));
    }
  }
  sum += __shfl_xor_sync(~0u, sum, 1);
  return sum + __shfl_xor_sync(~0u, sum, 2);
}

// The statistics of a thread's two rows, which are eight rows apart.
struct Stats {
  float lse[2], product[2];

  template <class N>
  __device__ static Stats of(const Layout& shared, const Owned<Layout>& owned, int own, int strip, int lane) {
    Stats stats;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint32_t at = shared.floats(owned.buffer()) + uint32_t(own + r * 8) * 4;
      stats.lse[r] = cuda::load_shared_float(at);
      stats.product[r] = product_of_row<N>(owned.rows(kOut), owned.rows(kDout), strip + r * 8, lane);
    }
    return stats;
  }
  __device__ void leave(const Params& p, int head, int row) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      *p.score_start(head, row + r * 8) = -lse[r] / p.scale;
      *p.product_start(head, row + r * 8) = -product[r];
    }
  }
};

template <class N>
__device__ void walk_over_keys(const Layout& shared, const Maps& maps, const Params& p) {
  const auto [warpgroup, lane, own, key] = Seat();
  const int strip = own - warpgroup * kHalf;  // this thread's first row within a unit
  const float scale_log2 = p.scale * flash::kLog2E;
  const Turns<Layout::kGroups> turns(warpgroup);
  Owned<Layout> owned(shared, warpgroup);
  cuda::RingPlace<Layout::kStages> place;
#pragma unroll 1
  while (owned.wait()) {
    const auto [all_steps, steps, unit] = OwnUnit(owned, warpgroup, p.causal);
    pass_over_steps(shared, all_steps - steps, turns, place);
    if (steps == 0) {
      owned.release_before();
      owned.pass_over();
      continue;
    }
    const uint64_t q = cuda::matrix_at(owned.rows(kQ)), dout = cuda::matrix_at(owned.rows(kDout));
    const Stats stats = Stats::of<N>(shared, owned, own, strip, lane);
    const int head = owned.item(ItemField::head), row = owned.item(ItemField::row);
    if (lane % 4 == 0) stats.leave(p, head, row + own);
    const float base[2] = {stats.lse[0] * flash::kLog2E, stats.lse[1] * flash::kLog2E};
    float dq[8][4] = {};
    uint32_t left[kHalf / 16][4];
    const auto release = [&](int stage) {
      cuda::hold_in_place(dq);
      if (lane == 0) cuda::barrier_arrive(shared.signals.empty(stage));
    };
    // One step without its product with keys. kFirst: no product of a previous step is pending.
    const auto step = [&]<bool kFirst, bool kDiagonal>() {
      Scores<kHalf> s, dp;
      const int last = place.stage;
      if constexpr (!kFirst) place.advance();
      cuda::barrier_wait(shared.signals.full(place.stage), place.parity);
#pragma unroll
      for (int i = 0; i < kHalf / 2; ++i) {
        dp[i / 4][i % 4] = -stats.product[i / 2 % 2];
      }
      cuda::hold_in_place(dp);
      turns.wait();
      if constexpr (!kFirst) multiply_rows<N>(dq, left, cuda::matrix_at(shared.tile(last, 0)));
      multiply_columns<N>(s, q, cuda::matrix_at(shared.tile(place.stage, 0)));
      add_columns<N>(dp, dout, cuda::matrix_at(shared.tile(place.stage, 1)));
      turns.pass_on();
      cuda::wait_for_products<1>();
      cuda::hold_in_place(s);
      if constexpr (!kFirst) release(last);
#pragma unroll
      for (int i = 0; i < kHalf / 2; ++i) {
        const bool hidden = kDiagonal && 8 * (i / 4) + key + i % 2 > strip + i / 2 % 2 * 8;
        float& score = s[i / 4][i % 4];
        const float weight = cuda::exp2_fast(fmaf(score, scale_log2, -base[i / 2 % 2]));
        score = hidden ? 0 : weight;
      }
      cuda::wait_for_products<0>();
      cuda::hold_in_place(dp);
#pragma unroll
      for (int i = 0; i < kHalf / 2; ++i) s[i / 4][i % 4] *= dp[i / 4][i % 4];
      to_left<N>(s, left);
    };
    if (p.causal) {
      step.template operator()<true, true>();
    } else {
      step.template operator()<true, false>();
    }
    owned.release_before();
#pragma unroll 1
    for (int i = 1; i < steps; ++i) step.template operator()<false, false>();
    multiply_rows<N>(dq, left, cuda::matrix_at(shared.tile(place.stage, 0)));
    cuda::wait_for_products<0>();
    release(place.stage);
    place.advance();
    owned.begin_results();
    stage_result<N>(dq, p.scale, owned.rows(kQ));
    owned.end_results([&] { cuda::store_tile(maps.dq, head * kHeadDim, row + warpgroup * kHalf, owned.rows(kQ)); });
  }
  owned.finish();
}

#endif  // GRADMILL_HOPPER_CODE

template <class N>
__global__ void __launch_bounds__(kQueryThreads, 1)
    query_gradient_kernel(const __grid_constant__ Maps maps, const __grid_constant__ Params p, const Lse lse) {
#ifdef GRADMILL_HOPPER_CODE
  extern __shared__ uint4 memory[];
  const Layout shared(memory);
  const auto bring_lse = [&](const Units& item, int row, int buffer, uint32_t full) {
    const float* const from = lse.data + item.head * lse.stride + row;
    cuda::copy_bytes(shared.floats(buffer), from, uint32_t(item.count) * kHalf * 4, full);
  };
  share_work(
      shared,
      [&] {
        bring_queries_and_keys(shared, {&maps.q, &maps.dout, &maps.out}, maps, p, bring_lse);
      },
      [&] { walk_over_keys<N>(shared, maps, p); });
#else
  __trap();
#endif
}

}  // namespace
}  // namespace hopper

template <class T>
void hopper_query_gradients(ExecContext& ctx, const AttentionGradArgs& args, const TensorView& stats) {
  using namespace hopper;
  const AttentionArgs& forward = args.forward;
  const auto map = [](const TensorView& view) { return cuda::map_tiles(view, kHalf); };
  const Maps maps{.q = map(forward.q),
                  .k = map(forward.k),
                  .v = map(forward.v),
                  .dout = map(args.dout),
                  .dq = map(args.dq),
                  .out = map(forward.out)};
  Params p = params_of(forward);
  p.stats = stats.ptr<float>();
  const int64_t blocks = std::min<int64_t>(Queries(p).count(), ctx.cuda->num_units());
  cuda::launch({dim3(unsigned(blocks)), kQueryThreads, cuda::stream_of(ctx), Layout::kBytes},
               query_gradient_kernel<cuda::Native<T>>, maps, p, Lse{forward.lse.ptr<float>(), forward.lse.row_stride});
}

template void hopper_query_gradients<Bf16>(ExecContext&, const AttentionGradArgs&, const TensorView&);
template void hopper_query_gradients<Fp16>(ExecContext&, const AttentionGradArgs&, const TensorView&);

}  // namespace gradmill
