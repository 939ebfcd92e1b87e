// SPDX-License-Identifier: Apache-2.0
// Attention's backward on Hopper, by warpgroup products from tiles that the copy engine brings. As in
// attention_flash_backward.cu one kernel owns keys and walks over the queries of all heads that share them, one owns
// queries and walks over keys: seven products instead of five, but no atomics, no fp32 accumulator in memory, nothing
// that passes through shared memory on its way from one product to the next, and results that never depend on order.
// A tile of 64 x 128 scores takes 256 cycles of the matrix units a product and 512 of the exponential unit: two
// warpgroups take turns, one multiplies while the other computes weights.
#include "cuda/launch.h"
#include "cuda/mma.cuh"
#include "cuda/reduce.cuh"
#include "cuda/tensor_map.h"
#include "cuda/tile_copy.cuh"
#include "cuda/wgmma.cuh"
#include "ops/attention_hopper.h"
#include "ops/flash_params.cuh"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GRADMILL_HOPPER_CODE 1
#endif

namespace gradmill {
namespace hopper {
namespace {

constexpr int kHeadDim = 64, kTile = 128, kWarpgroup = 128;
constexpr int kConsumers = 2, kThreads = (kConsumers + 1) * kWarpgroup;  // one warpgroup starts copies
constexpr uint32_t kTileBytes = kTile * cuda::kTileRowBytes, kHalfTileBytes = kTileBytes / 2;
constexpr uint32_t kStatsBytes = 2 * kTile * sizeof(float);
// Sixteen columns or rows further, in units of 16 bytes.
constexpr uint64_t kColumnStep = 32 / 16, kRowStep = 2048 / 16;
constexpr int kConsumerRegisters = 240, kProducerRegisters = 24;

struct Maps {
  CUtensorMap q, k, v, dout, dq, dk, dv;
};

struct Params {
  // Of each sequence, head and tile of queries: kTile times the log2-sum-exp2, then kTile times the sum of out * dout.
  const float* stats;
  int tiles;         // of a sequence
  int heads, group;  // query heads; query heads of one key head
  float scale;
  bool causal;
};

// Shared memory: two tiles that the block owns, then kStages times two tiles (and queries' stats) that it walks over.
template <int kStages, bool kStats>
struct Layout {
  static constexpr uint32_t kOwn = 2 * kTileBytes, kStage = 2 * kTileBytes;
  static constexpr uint32_t kStatsAt = kOwn + kStages * kStage;
  static constexpr uint32_t kBarriersAt = kStatsAt + (kStats ? kStages * kStatsBytes : 0);
  static constexpr uint32_t kBytes = kBarriersAt + (2 * kStages + 1) * 8 + 1024;  // the start is aligned by hand

  uint32_t base;
  __device__ explicit Layout(const void* shared) : base((cuda::shared_address(shared) + 1023) & ~1023u) {}
  __device__ uint32_t own(int i) const { return base + uint32_t(i) * kTileBytes; }
  __device__ uint32_t tile(int stage, int i) const {
    return base + kOwn + uint32_t(stage) * kStage + uint32_t(i) * kTileBytes;
  }
  __device__ uint32_t stats(int stage) const { return base + kStatsAt + uint32_t(stage) * kStatsBytes; }
  __device__ uint32_t full(int stage) const { return base + kBarriersAt + uint32_t(stage) * 8; }
  __device__ uint32_t empty(int stage) const { return full(kStages + stage); }
  __device__ uint32_t own_full() const { return full(2 * kStages); }

  __device__ void init_barriers() const {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        cuda::barrier_init(full(stage), 1);
        cuda::barrier_init(empty(stage), kConsumers * kWarpgroup / 32);
      }
      cuda::barrier_init(own_full(), 1);
      cuda::barrier_init_done();
    }
    __syncthreads();
  }
};

// A place in the ring of stages.
template <int kStages>
struct Turn {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

using KeyLayout = Layout<3, true>;
using QueryLayout = Layout<4, false>;
constexpr int kKeyStages = 3, kQueryStages = 4;

#ifdef GRADMILL_HOPPER_CODE

// d = a · bᵀ over the 64 columns of both tiles.
template <class N>
__device__ void multiply_columns(float (&d)[16][4], uint64_t a, uint64_t b) {
  cuda::begin_products();
  cuda::multiply_rows<N, false>(d, a, b);
#pragma unroll
  for (int k = 1; k < kHeadDim / 16; ++k) {
    cuda::multiply_rows<N, true>(d, a + k * kColumnStep, b + k * kColumnStep);
  }
  cuda::end_products();
}

// d += left · tile over the 128 rows of the tile.
template <class N>
__device__ void multiply_rows(float (&d)[8][4], const uint32_t (&left)[kTile / 16][4], uint64_t tile) {
  cuda::hold_in_place(d);
  cuda::begin_products();
#pragma unroll
  for (int s = 0; s < kTile / 16; ++s) cuda::multiply_add_columns<N>(d, left[s], tile + s * kRowStep);
  cuda::end_products();
}

template <class N>
__device__ void to_left(const float (&d)[16][4], uint32_t (&left)[kTile / 16][4]) {
#pragma unroll
  for (int s = 0; s < kTile / 16; ++s) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      left[s][i] = cuda::pack_pair<N>(d[2 * s + i / 2][i % 2 * 2], d[2 * s + i / 2][i % 2 * 2 + 1]);
    }
  }
}

// scale * d (64 x 64, the warpgroup's) as 16-bit rows of a tile in shared memory; then the engine stores the tile.
template <class N>
__device__ void stage_result(const float (&d)[8][4], float scale, uint32_t tile, int first_row) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + warp * 16 + lane / 4 + half * 8;
      const uint32_t at = tile + uint32_t(row * cuda::kTileRowBytes + (j ^ row % 8) * 16 + lane % 4 * 4);
      cuda::store_shared(at, cuda::pack_pair<N>(d[j][2 * half] * scale, d[j][2 * half + 1] * scale));
    }
  }
  cuda::show_to_products();
}

// By shuffle, so that the compiler knows it is the same for a warp and keeps what depends on it in uniform registers.
__device__ inline int own_warpgroup() { return __shfl_sync(~0u, int(threadIdx.x) / kWarpgroup, 0); }

// The consumers' turns at the matrix units: each waits for the other's products to be queued before it queues its own.
// Left alone, both would multiply at half speed and then both compute weights while the matrix units idle.
class Turns {
 public:
  __device__ explicit Turns(int warpgroup) : own_(2 + warpgroup), other_(3 - warpgroup) {
    if (warpgroup == 1) pass_on();
  }
  __device__ void wait() const {
    asm volatile("bar.sync %0, %1;" ::"r"(own_), "n"(kConsumers * kWarpgroup) : "memory");
  }
  __device__ void pass_on() const {
    asm volatile("bar.arrive %0, %1;" ::"r"(other_), "n"(kConsumers * kWarpgroup) : "memory");
  }

 private:
  int own_, other_;  // named barriers
};

// Among the consumers only.
__device__ inline void sync_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(kConsumers * kWarpgroup) : "memory"); }

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
  Turn<kKeyStages> turn;
  int diagonal_in = p.causal ? 0 : steps;  // steps until a tile on the diagonal comes
  // The part of a step before its products with queries and dout; its scores have been started.
  const auto weigh = [&] {
    multiply_columns<N>(dp, v, cuda::matrix_at(shared.tile(turn.stage, 1)));
    cuda::wait_for_products<1>();
    cuda::hold_in_place(s);
    if (diagonal_in == 0) {
      weigh_queries<true>(shared.stats(turn.stage), scale_log2, key, query, s, dp);
      diagonal_in = steps_a_head;
    } else {
      weigh_queries<false>(shared.stats(turn.stage), scale_log2, key, query, s, dp);
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
    const int done = turn.stage;
    turn.advance();
    cuda::barrier_wait(shared.full(turn.stage), turn.parity);
    turns.wait();
    multiply_rows<N>(dv, left, cuda::matrix_at(shared.tile(done, 1)));
    multiply_rows<N>(dk, dleft, cuda::matrix_at(shared.tile(done, 0)));
    multiply_columns<N>(s, k, cuda::matrix_at(shared.tile(turn.stage, 0)));
    turns.pass_on();
    cuda::wait_for_products<1>();
    cuda::hold_in_place(dk);
    cuda::hold_in_place(dv);
    if (lane == 0) cuda::barrier_arrive(shared.empty(done));
    weigh();
  }
  multiply_rows<N>(dv, left, cuda::matrix_at(shared.tile(turn.stage, 1)));
  multiply_rows<N>(dk, dleft, cuda::matrix_at(shared.tile(turn.stage, 0)));
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
  Turn<kQueryStages> turn;
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
    multiply_columns<N>(s, q, cuda::matrix_at(shared.tile(turn.stage, 0)));
    multiply_columns<N>(dp, dout, cuda::matrix_at(shared.tile(turn.stage, 1)));
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
    const int done = turn.stage;
    turn.advance();
    cuda::barrier_wait(shared.full(turn.stage), turn.parity);
    turns.wait();
    multiply_rows<N>(dq, left, cuda::matrix_at(shared.tile(done, 0)));
    start();
    cuda::hold_in_place(dq);
    if (lane == 0) cuda::barrier_arrive(shared.empty(done));
    weigh(p.causal && step + 1 == steps);
  }
  multiply_rows<N>(dq, left, cuda::matrix_at(shared.tile(turn.stage, 0)));
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
  Turn<kKeyStages> turn;
  int head = kv_head * p.group, query_tile = first;
  for (int step = 0; step < steps; ++step) {
    if (step >= kKeyStages) cuda::barrier_wait(shared.empty(turn.stage), turn.parity ^ 1);
    const uint32_t full = shared.full(turn.stage);
    cuda::barrier_expect(full, 2 * kTileBytes + kStatsBytes);
    cuda::copy_tile(shared.tile(turn.stage, 0), maps.q, head * kHeadDim, row + query_tile * kTile, full);
    cuda::copy_tile(shared.tile(turn.stage, 1), maps.dout, head * kHeadDim, row + query_tile * kTile, full);
    const int64_t stats = (int64_t(seq) * p.heads + head) * p.tiles + query_tile;
    cuda::copy_bytes(shared.stats(turn.stage), p.stats + stats * 2 * kTile, kStatsBytes, full);
    turn.advance();
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
  Turn<kQueryStages> turn;
  for (int step = 0; step < steps; ++step) {
    if (step >= kQueryStages) cuda::barrier_wait(shared.empty(turn.stage), turn.parity ^ 1);
    const uint32_t full = shared.full(turn.stage);
    cuda::barrier_expect(full, 2 * kTileBytes);
    cuda::copy_tile(shared.tile(turn.stage, 0), maps.k, kv_head * kHeadDim, row + step * kTile, full);
    cuda::copy_tile(shared.tile(turn.stage, 1), maps.v, kv_head * kHeadDim, row + step * kTile, full);
    turn.advance();
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
