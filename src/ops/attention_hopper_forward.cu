// SPDX-License-Identifier: Apache-2.0
// Attention's forward on Hopper, made like its backward: blocks stay, own up to 192 queries at a time, 64 for each of
// three warpgroups, and walk over their keys from the diagonal back. Scores of the next keys are multiplied before the
// weighted sum of the last ones, so that weights are computed while the matrix units do that sum.
// A tile of 64 x 128 scores takes 256 cycles of the matrix units a product and 512 of the exponential unit.
#include <algorithm>

#include "cuda/engine.h"
#include "cuda/launch.h"
#include "cuda/tensor_map.h"
#include "ops/attention_hopper.cuh"
#include "ops/attention_hopper.h"
#include "ops/flash_params.cuh"

namespace gradmill {
namespace hopper {

// Shared memory: queries of an item, and again of the next one; stages of keys and values; barriers; what is told.
struct ForwardLayout {
  static constexpr int kGroups = 3, kRegisters = 160, kCopierRegisters = 32;  // registers of threads
  static constexpr uint32_t kOwnBytes = kGroups * kHalfTileBytes, kPair = 2 * kTileBytes, kRing = 2 * kOwnBytes;
  static constexpr uint32_t kBarriersAt = kRing + kStages * kPair, kItemsAt = kBarriersAt + (2 * kStages + 4) * 8;
  static constexpr uint32_t kItemBytes = 16, kBytes = kItemsAt + 2 * kItemBytes + 1024;  // the start is aligned by hand
  uint32_t base;

  __device__ explicit ForwardLayout(const void* shared) : base((cuda::shared_address(shared) + 1023) & ~1023u) {}
  __device__ uint32_t own(int buffer, int) const { return base + uint32_t(buffer) * kOwnBytes; }
  __device__ uint32_t tile(int stage, int i) const {
    return base + kRing + uint32_t(stage) * kPair + uint32_t(i) * kTileBytes;
  }
  __device__ uint32_t full(int stage) const { return base + kBarriersAt + uint32_t(stage) * 8; }
  __device__ uint32_t empty(int stage) const { return full(kStages + stage); }
  __device__ uint32_t own_full(int buffer) const { return full(2 * kStages + buffer); }
  __device__ uint32_t own_empty(int buffer) const { return full(2 * kStages + 2 + buffer); }
  __device__ uint32_t item(int buffer) const { return base + kItemsAt + uint32_t(buffer) * kItemBytes; }

  __device__ void init_barriers() const {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        cuda::barrier_init(full(stage), 1);
        cuda::barrier_init(empty(stage), kGroups * kWarpgroup / 32);
      }
      for (int buffer = 0; buffer < 2; ++buffer) {
        cuda::barrier_init(own_full(buffer), 1);
        cuda::barrier_init(own_empty(buffer), kGroups * kWarpgroup);
      }
      cuda::barrier_init_done();
    }
    __syncthreads();
  }
};
inline constexpr int kForwardThreads = (ForwardLayout::kGroups + 1) * kWarpgroup;

// Units of 64 queries, one for each warpgroup, and the tiles of keys that the last of them sees.
struct Units {
  int seq, head, first, count, steps;  // first: in the sequence
};

// A block's items, as Items has them. Sequences need not be a multiple of three units: the first item, which sees
// fewest keys, has what is left over.
struct Queries {
  static constexpr int kMost = ForwardLayout::kGroups;
  int heads, units, tiles, lines, items, left;
  bool causal;

  __host__ __device__ explicit Queries(const Params& p)
      : heads(p.heads),
        units(2 * p.tiles),
        tiles(p.tiles),
        lines(p.seqs * p.heads),
        items((units + kMost - 1) / kMost),
        left(units - (items - 1) * kMost),
        causal(p.causal) {}
  __host__ __device__ int64_t count() const { return int64_t{lines} * items; }
  // Of 0 steps if there is none.
  __device__ Units operator[](int round) const {
    const int block = int(blockIdx.x), blocks = int(gridDim.x);
    const int index = round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
    if (index >= count()) return {};
    const int line = index % lines, item = items - 1 - index / lines;
    const int first = item == 0 ? 0 : left + (item - 1) * kMost, count = item == 0 ? left : kMost;
    return {line / heads, line % heads, first, count, causal ? (first + count + 1) / 2 : tiles};
  }
};

namespace {

struct Lse {
  float* data;  // (H, N)
  int64_t stride;
};

#ifdef GRADMILL_HOPPER_CODE

constexpr float kLn2 = 0.693147180559945309f;

// What a thread knows of its two rows: eight rows lie between them, and four lanes share each.
struct Softmax {
  float base[2] = {-INFINITY, -INFINITY};  // weights are 2^(score * scale - base)
  float total[2] = {};                     // of this lane's weights

  // Weights may be this many powers of two larger than 1 before the base follows: it seldom has to, after the first
  // step.
  static constexpr float kRoom = 8;

  // The scores' largest values of both rows, as far as this lane has them.
  template <bool kDiagonal, Part kPart>
  __device__ static float2 largest(Scores<kPart>& s, int query, int key) {
    key += begin_of(kPart);
    float high[2][2] = {{-INFINITY, -INFINITY}, {-INFINITY, -INFINITY}};  // a row's in two chains
#pragma unroll
    for (int i = 0; i < rows_of(kPart) / 2; ++i) {
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
  // Returns the factors of what earlier weights have made of the rows.
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
  template <Part kPart>
  __device__ void weigh(Scores<kPart>& s, float scale) {
    float sums[2][2] = {};
#pragma unroll
    for (int i = 0; i < rows_of(kPart) / 2; ++i) {
      float& score = s[i / 4][i % 4];
      score = cuda::exp2_fast(fmaf(score, scale, -base[i / 2 % 2]));
      sums[i / 2 % 2][i % 2] += score;
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) total[r] += sums[r][0] + sums[r][1];
  }
  // Over all lanes of the rows.
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
__device__ void attend(const ForwardLayout& shared, const Maps& maps, const Params& p, const Lse& lse) {
  const auto [warpgroup, lane, own, key] = Seat();
  const int strip = own - warpgroup * kHalf;  // the first row of this thread's in a unit
  const float scale_log2 = p.scale * flash::kLog2E;
  const Turns<ForwardLayout::kGroups> turns(warpgroup);
  Owned<ForwardLayout> owned(shared, warpgroup);
  cuda::RingPlace<kStages> place;
#pragma unroll 1
  while (owned.wait()) {
    const int all_steps = owned.told(Told::steps), units = owned.told(Told::units);
    const int unit = units / 4 + warpgroup, query = unit % 2 * kHalf + strip;
    // Tiles of keys that this warpgroup sees: those before and the one on the diagonal, or none.
    const int steps = warpgroup >= units % 4 ? 0 : p.causal ? unit / 2 + 1 : all_steps;
#pragma unroll 1
    for (int i = steps; i < all_steps; ++i, place.advance()) {
      cuda::barrier_wait(shared.full(place.stage), place.parity);
      turns.wait();
      turns.pass_on();
      if (lane == 0) cuda::barrier_arrive(shared.empty(place.stage));
    }
    if (steps == 0) {
      owned.release_before();
      owned.pass_over();
      continue;
    }
    const uint64_t q = cuda::matrix_at(owned.rows(0));
    float out[8][4] = {};
    uint32_t left[kTile / 16][4];
    Softmax softmax;
    // Up to its weights; the weighted sum of values follows with the next step's scores.
    const auto first_step = [&]<bool kDiagonal, Part kPart>() {
      Scores<kPart> s;
      cuda::barrier_wait(shared.full(place.stage), place.parity);
      turns.wait();
      multiply_columns<N, kPart>(s, q, cuda::matrix_at(shared.tile(place.stage, 0)));
      turns.pass_on();
      cuda::wait_for_products<0>();
      cuda::hold_in_place(s);
      softmax.follow(Softmax::largest<kDiagonal, kPart>(s, query, key), scale_log2);
      softmax.weigh<kPart>(s, scale_log2);
      to_left<N, kPart>(s, left);
    };
    const auto release = [&](int stage) {
      cuda::wait_for_products<0>();
      cuda::hold_in_place(out);
      if (lane == 0) cuda::barrier_arrive(shared.empty(stage));
    };
    // Scores come before the weighted sum of the last keys' values: while the matrix units add that up, weights are
    // computed.
    const auto step = [&] {
      Scores<Part::all> s;
      const int last = place.stage;
      place.advance();
      cuda::barrier_wait(shared.full(place.stage), place.parity);
      turns.wait();
      multiply_columns<N, Part::all>(s, q, cuda::matrix_at(shared.tile(place.stage, 0)));
      multiply_rows<N>(out, left, cuda::matrix_at(shared.tile(last, 1)));
      turns.pass_on();
      cuda::wait_for_products<1>();
      cuda::hold_in_place(s);
      const float2 most = Softmax::largest<false, Part::all>(s, query, key);
      if (softmax.must_follow(most, scale_log2)) {
        const float2 factor = softmax.follow(most, scale_log2);
        cuda::wait_for_products<0>();
        cuda::hold_in_place(out);
        scale_rows(out, factor);
      }
      softmax.weigh<Part::all>(s, scale_log2);
      // ptxas moves a wait up to where nothing forbids it, and then nothing is computed during the sum: but not before
      // a branch.
      if (__any_sync(~0u, softmax.total[0] < 0 || softmax.total[1] < 0)) __trap();
      release(last);
      to_left<N, Part::all>(s, left);
    };
    if (!p.causal) {
      first_step.template operator()<false, Part::all>();
    } else if (unit % 2 == 0) {  // on the diagonal the first half of the queries sees the first half of the keys
      first_step.template operator()<true, Part::first>();
    } else {
      first_step.template operator()<true, Part::all>();
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
    const int head = owned.told(Told::head), row = owned.told(Told::row);
    if (lane % 4 == 0) {
      float* const to = lse.data + head * lse.stride + row + own;
#pragma unroll
      for (int r = 0; r < 2; ++r) to[r * 8] = (softmax.base[r] + log2f(softmax.total[r])) * kLn2;
    }
    owned.end_results([&] { cuda::store_tile(maps.out, head * kHeadDim, row + warpgroup * kHalf, owned.rows(0)); });
  }
  owned.finish();
}

// The producer's part: one thread starts all copies.
__device__ void bring(const ForwardLayout& shared, const Maps& maps, const Params& p) {
  const Queries queries(p);
  cuda::RingPlace<2> own;
  cuda::RingPlace<kStages> place;
#pragma unroll 1
  for (int round = 0;; ++round, own.advance()) {
    const Units item = queries[round];
    const int row = item.seq * p.tiles * kTile + item.first * kHalf;
    const uint32_t full = shared.own_full(own.stage);
    const auto tell = [&](Told what, int value) {
      cuda::store_shared(shared.item(own.stage) + uint32_t(what) * 4, uint32_t(value));
    };
    cuda::barrier_wait(shared.own_empty(own.stage), own.parity ^ 1);  // at once in the first round
    tell(Told::steps, item.steps);
    tell(Told::row, row);
    tell(Told::head, item.head);
    tell(Told::units, item.first * 4 + item.count);
    if (item.steps == 0) {
      cuda::barrier_arrive(full);
      return;
    }
    cuda::barrier_expect(full, uint32_t(item.count) * kHalfTileBytes);
#pragma unroll 1
    for (int i = 0; i < item.count; ++i) {
      cuda::copy_tile(shared.own(own.stage, 0) + uint32_t(i) * kHalfTileBytes, maps.q, item.head * kHeadDim,
                      row + i * kHalf, full);
    }
    bring_keys(shared, maps, p, item.seq, item.head / p.group, item.steps, place);
  }
}

#endif  // GRADMILL_HOPPER_CODE

template <class N>
__global__ void __launch_bounds__(kForwardThreads, 1)
    attention_kernel(const __grid_constant__ Maps maps, const __grid_constant__ Params p, const Lse lse) {
#ifdef GRADMILL_HOPPER_CODE
  extern __shared__ uint4 memory[];
  const ForwardLayout shared(memory);
  shared.init_barriers();
  if (threadIdx.x >= ForwardLayout::kGroups * kWarpgroup) {
    cuda::give_registers<ForwardLayout::kCopierRegisters>();
    if (threadIdx.x == ForwardLayout::kGroups * kWarpgroup) bring(shared, maps, p);
  } else {
    cuda::take_registers<ForwardLayout::kRegisters>();
    attend<N>(shared, maps, p, lse);
  }
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
  cuda::launch({dim3(unsigned(blocks)), kForwardThreads, cuda::stream_of(ctx), ForwardLayout::kBytes},
               attention_kernel<cuda::Native<T>>, maps, p, Lse{args.lse.ptr<float>(), args.lse.row_stride});
}

template void hopper_forward<Bf16>(ExecContext&, const AttentionArgs&);
template void hopper_forward<Fp16>(ExecContext&, const AttentionArgs&);

}  // namespace gradmill
