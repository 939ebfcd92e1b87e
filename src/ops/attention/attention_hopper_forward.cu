// SPDX-License-Identifier: Apache-2.0
// Attention's forward on Hopper. The scores of the next keys are queued before the weighted sum of the previous ones,
// so that weights are computed while the matrix units compute that sum. A tile of 64 x 128 scores takes 256 cycles of
// the matrix units per product and 512 of the exponential unit.
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

using Layout = QueriesLayout<1, false, kTile, 4>;

struct Lse {
  float* data;  // (H, N)
  int64_t stride;
};

#ifdef GRADMILL_HOPPER_CODE

constexpr float kLn2 = 0.693147180559945309f;

// The state of a thread's two rows, which are eight rows apart; four lanes share each row.
struct Softmax {
  float base[2] = {-INFINITY, -INFINITY};  // weights are 2^(score * scale - base)
  float total[2] = {};                     // sum of this lane's weights

  // Weights may exceed 1 by this power of two before the base is raised. After the first step this is rarely necessary.
  static constexpr float kRoom = 8;

  // The largest scores of both rows, as far as this lane has them.
  template <bool kDiagonal, int kEights>
  __device__ static float2 largest(float (&s)[kEights][4], int query, int key) {
    float high[2][2] = {{-INFINITY, -INFINITY}, {-INFINITY, -INFINITY}};  // two chains per row
#pragma unroll
    for (int i = 0; i < 4 * kEights; ++i) {
      float& score = s[i / 4][i % 4];
      if (kDiagonal && 8 * (i / 4) + key + i % 2 > query + i / 2 % 2 * 8) score = -INFINITY;
      float& to = high[i / 2 % 2][i % 2];
      to = fmaxf(to, score);
    }
    return {fmaxf(high[0][0], high[0][1]), fmaxf(high[1][0], high[1][1])};
  }
  __device__ bool must_follow(float2 most, float scale) const {
    const bool high = fmaf(most.x, scale, -base[0]) > kRoom || fmaf(most.y, scale, -base[1]) > kRoom;
    return __any_sync(~0u, high);
  }
  // Raises the base. Returns the factors that rescale the previous sums of the two rows.
  __device__ float2 follow(float2 most, float scale) {
    float factor[2], high[2] = {most.x, most.y};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      high[r] = fmaxf(high[r], __shfl_xor_sync(~0u, high[r], 1));
      high[r] = fmaxf(high[r], __shfl_xor_sync(~0u, high[r], 2));
      const float next = fmaxf(base[r], high[r] * scale);
      factor[r] = cuda::exp2_fast(base[r] - next);
      base[r] = next;
      total[r] *= factor[r];
    }
    return {factor[0], factor[1]};
  }
  template <int kEights>
  __device__ void weigh(float (&s)[kEights][4], float scale) {
    float sums[2][2] = {};
#pragma unroll
    for (int i = 0; i < 4 * kEights; ++i) {
      float& score = s[i / 4][i % 4];
      score = cuda::exp2_fast(fmaf(score, scale, -base[i / 2 % 2]));
      sums[i / 2 % 2][i % 2] += score;
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) total[r] += sums[r][0] + sums[r][1];
  }
  // Sums over all lanes of the rows.
  __device__ void finish() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      total[r] += __shfl_xor_sync(~0u, total[r], 1);
      total[r] += __shfl_xor_sync(~0u, total[r], 2);
    }
  }
};

__device__ inline void scale_rows(float (&out)[8][4], float2 by) {
#pragma unroll
  for (int i = 0; i < 32; ++i) out[i / 4][i % 4] *= i / 2 % 2 ? by.y : by.x;
}

template <class N>
__device__ void attend(const Layout& shared, const Maps& maps, const Params& p, const Lse& lse) {
  const auto [warpgroup, lane, own, key] = Seat();
  const int strip = own - warpgroup * kHalf;  // this thread's first row within a unit
  const float scale_log2 = p.scale * flash::kLog2E;
  const Turns<Layout::kGroups> turns(warpgroup);
  Owned<Layout> owned(shared, warpgroup);
  cuda::RingPlace<Layout::kStages> place;
#pragma unroll 1
  while (owned.wait()) {
    const auto [all_steps, steps, unit] = OwnUnit(owned, warpgroup, p.causal);
    const int query = unit % 2 * kHalf + strip;
    pass_over_steps(shared, all_steps - steps, turns, place);
    if (steps == 0) {
      owned.release_before();
      owned.pass_over();
      continue;
    }
    const uint64_t q = cuda::matrix_at(owned.rows(0));
    float out[8][4] = {};
    uint32_t left[kTile / 16][4];
    Softmax softmax;
    // Computes the first weights. The weighted sum of values follows with the next step's scores.
    const auto first_step = [&]<bool kDiagonal, int kKeys>() {
      Scores<kKeys> s;
      cuda::barrier_wait(shared.signals.full(place.stage), place.parity);
      turns.wait();
      multiply_columns<N>(s, q, cuda::matrix_at(shared.tile(place.stage, 0)));
      turns.pass_on();
      cuda::wait_for_products<0>();
      cuda::hold_in_place(s);
      softmax.follow(Softmax::largest<kDiagonal>(s, query, key), scale_log2);
      softmax.weigh(s, scale_log2);
      to_left<N>(s, left);
    };
    const auto release = [&](int stage) {
      cuda::wait_for_products<0>();
      cuda::hold_in_place(out);
      if (lane == 0) cuda::barrier_arrive(shared.signals.empty(stage));
    };
    // Queues the scores before the weighted sum of the previous keys' values: weights are computed while the matrix
    // units compute that sum.
    const auto step = [&] {
      Scores<kTile> s;
      const int last = place.stage;
      place.advance();
      cuda::barrier_wait(shared.signals.full(place.stage), place.parity);
      turns.wait();
      multiply_columns<N>(s, q, cuda::matrix_at(shared.tile(place.stage, 0)));
      multiply_rows<N>(out, left, cuda::matrix_at(shared.tile(last, 1)));
      turns.pass_on();
      cuda::wait_for_products<1>();
      cuda::hold_in_place(s);
      const float2 most = Softmax::largest<false>(s, query, key);
      if (softmax.must_follow(most, scale_log2)) {
        const float2 factor = softmax.follow(most, scale_log2);
        cuda::wait_for_products<0>();
        cuda::hold_in_place(out);
        scale_rows(out, factor);
      }
      softmax.weigh(s, scale_log2);
      // Without a branch here, ptxas would move a wait up as far as possible, and nothing would be computed during the
      // sum.
      if (__any_sync(~0u, softmax.total[0] < 0 || softmax.total[1] < 0)) __trap();
      release(last);
      to_left<N>(s, left);
    };
    if (!p.causal) {
      first_step.template operator()<false, kTile>();
    } else if (unit % 2 == 0) {  // on the diagonal, the first half of the queries sees the first half of the keys
      first_step.template operator()<true, kHalf>();
    } else {
      first_step.template operator()<true, kTile>();
    }
    owned.release_before();
#pragma unroll 1
    for (int i = 1; i < steps; ++i) step();
    multiply_rows<N>(out, left, cuda::matrix_at(shared.tile(place.stage, 1)));
    release(place.stage);
    place.advance();
    softmax.finish();
    scale_rows(out, {1 / softmax.total[0], 1 / softmax.total[1]});
    owned.begin_results();
    stage_result<N>(out, 1, owned.rows(0));
    const int head = owned.item(ItemField::head), row = owned.item(ItemField::row);
    if (lane % 4 == 0) {
      float* const to = lse.data + head * lse.stride + row + own;
#pragma unroll
      for (int r = 0; r < 2; ++r) to[r * 8] = (softmax.base[r] + log2f(softmax.total[r])) * kLn2;
    }
    owned.end_results([&] { cuda::store_tile(maps.out, head * kHeadDim, row + warpgroup * kHalf, owned.rows(0)); });
  }
  owned.finish();
}

#endif  // GRADMILL_HOPPER_CODE

template <class N>
__global__ void __launch_bounds__(kQueryThreads, 1)
    attention_kernel(const __grid_constant__ Maps maps, const __grid_constant__ Params p, const Lse lse) {
#ifdef GRADMILL_HOPPER_CODE
  extern __shared__ uint4 memory[];
  const Layout shared(memory);
  const auto bring_no_more = [](const Units&, int, int, uint32_t) {};
  share_work(
      shared, [&] { bring_queries_and_keys(shared, {&maps.q}, maps, p, bring_no_more); },
      [&] { attend<N>(shared, maps, p, lse); });
#else
  __trap();
#endif
}

}  // namespace
}  // namespace hopper

template <class T>
void hopper_forward(ExecContext& ctx, const AttentionArgs& args) {
  using namespace hopper;
  const Maps maps{.q = cuda::map_tiles(args.q, kHalf),
                  .k = cuda::map_tiles(args.k, kTile),
                  .v = cuda::map_tiles(args.v, kTile),
                  .out = cuda::map_tiles(args.out, kHalf)};
  const Params p = params_of(args);
  const int64_t blocks = std::min<int64_t>(Queries(p).count(), ctx.cuda->num_units());
  cuda::launch({dim3(unsigned(blocks)), kQueryThreads, cuda::stream_of(ctx), Layout::kBytes},
               attention_kernel<cuda::Native<T>>, maps, p, Lse{args.lse.ptr<float>(), args.lse.row_stride});
}

template void hopper_forward<Bf16>(ExecContext&, const AttentionArgs&);
template void hopper_forward<Fp16>(ExecContext&, const AttentionArgs&);

}  // namespace gradmill
