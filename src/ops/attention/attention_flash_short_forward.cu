// SPDX-License-Identifier: Apache-2.0
// Flash attention, forward, for sequences of up to 256 keys. A block owns a sequence and head, with all keys and values
// in shared memory. Three blocks fit on a multiprocessor: a few hundred run at once, and the loads of one are hidden by
// the arithmetic of another. A warp owns four strips of 16 queries, one from each quarter, so that under a causal mask
// all warps have the same work and can start when the first quarter of the keys has arrived.
// Keys are assigned to columns of accumulators such that a lane holds eight neighbouring keys of a query. One Philox
// call decides about exactly these, so lanes exchange nothing. 16 queries x 64 keys take a warp 64 mma, 32 ldmatrix and
// about 450 other instructions: for 384 heads of 256 causal tokens, about 16,000 issue slots of a scheduler on an H200.
#include "cuda/launch.h"
#include "cuda/reduce.cuh"
#include "ops/attention/flash_launch.h"
#include "ops/attention/flash_short.cuh"
#include "ops/attention/flash_softmax.cuh"
#include "ops/attention/flash_tile.cuh"

namespace gradmill::flash {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32, kStripQueries = kStripRows;
constexpr int kQuarter = kShortLen / 4, kGroupKeys = 32;  // keys that are loaded together; keys that are assigned
                                                          // together

// Rows of keys or values. Free of bank conflicts for eight neighbouring rows, and for rows 0, 1, 8, 9, 16, 17, 24, 25.
struct KeyRows {
  static constexpr uint32_t kRowBytes = kShortWidth * 2, kBytes = kShortLen * kRowBytes;
  __device__ static constexpr uint32_t swizzle(uint32_t row) { return (row & 1) | ((row >> 1 ^ row >> 3) & 3) << 1; }
  __device__ static constexpr uint32_t offset(uint32_t row, uint32_t chunk) {
    return row * kRowBytes + (chunk ^ swizzle(row)) * 16;
  }
};
// Shared memory: k, v, the buffer that out is stored from, and the step's scalars, which are loaded with the first
// keys.
constexpr uint32_t kStagesAt = 2 * KeyRows::kBytes, kScalarsAt = kStagesAt + kWarps * kStripBytes;
constexpr uint32_t kForwardBytes = kScalarsAt + sizeof(StepScalars);
static_assert(sizeof(StepScalars) % 16 == 0);

// In a group of keys, column j of tile n is key 8 * (j / 2) + 2 * n + j % 2, so lane t has keys 8t .. 8t + 7. This
// computes the address of a lane's row in an ldmatrix over two tiles; see LaneOffset.
class DealtLanes {
 public:
  // `tile` and `chunk` (0 or 1) select the matrix for which this lane provides a row address.
  __device__ DealtLanes(uint32_t tile, uint32_t chunk) {
    const uint32_t j = threadIdx.x % 8, row = 8 * (j / 2) + 2 * tile + j % 2;
    row_ = row * KeyRows::kRowBytes;
    mix_ = (chunk ^ KeyRows::swizzle(row)) * 16;
  }
  // `key` is the first key of a group. Covers tiles 2 * pair and 2 * pair + 1. `chunk` must be even.
  __device__ uint32_t at(uint32_t rows, uint32_t key, uint32_t pair, uint32_t chunk) const {
    return rows + (key + 4 * pair) * KeyRows::kRowBytes + row_ + (chunk * 16 ^ pair * 64 ^ mix_);
  }

 private:
  uint32_t row_, mix_;
};

template <class N>
__device__ void load_quarter(uint32_t to, const HeadRows<const N>& from, int begin, int first, int len, int column,
                             int head_dim) {
  constexpr int kChunks = kShortWidth / 8, kRowsAtOnce = kThreads / kChunks;
  const int chunk = int(threadIdx.x) % kChunks, row = first + int(threadIdx.x) / kChunks;
  const int left = chunk * 8 < head_dim ? len : 0;
#pragma unroll
  for (int i = 0; i < kQuarter; i += kRowsAtOnce) {
    cuda::copy_async<16>(to + KeyRows::offset(row + i, chunk), from.at(begin + row + i, column + chunk * 8),
                         row + i < left);
  }
}

// A strip of queries as the left operand.
template <class N>
__device__ void load_strip(const Params<N>& p, const Sequence& seq, int column, int query, uint32_t (&q)[4][4]) {
  const int lane = int(threadIdx.x) % 32, row = query + lane / 4;
  const N* const from = p.q.at(seq.q_begin + row, column + lane % 4 * 2);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto* words = reinterpret_cast<const uint32_t*>(from + half * 8 * p.q.stride);
    const int cols = row + half * 8 < seq.q_len ? p.head_dim : 0;
#pragma unroll
    for (int chunk = 0; chunk < 8; ++chunk) {
      q[chunk / 2][chunk % 2 * 2 + half] = chunk * 8 < cols ? words[chunk * 4] : 0;
    }
  }
}

// The running state of a strip, for rows g and g + 8.
struct StripState {
  float out[kShortWidth / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {};
};

// Converts scores to weights, and rescales the previous sums to the new maximum.
template <int kNs>
__device__ void softmax_step(float scale2, float (&scores)[kNs][4], StripState& state) {
  float shrink[2];
  softmax_strip(scale2, scores, state.largest, state.total, shrink);
#pragma unroll
  for (int i = 0; i < kShortWidth / 2; ++i) state.out[i / 4][i % 4] *= shrink[i % 4 / 2];
}

// Processes kGroups groups of keys from `key` on, for the strip that begins with `query`.
template <class N, int kGroups, bool kMasked, bool kDropout>
__device__ void strip_step(const Params<N>& p, const Sequence& seq, const Dropout& rule, const uint32_t (&q)[4][4],
                           const uint2 (&rows)[2], uint32_t column, int query, int key, uint32_t k, uint32_t v,
                           StripState& state) {
  constexpr int kNs = kGroups * 4;
  const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const DealtLanes key_lanes(lane / 16, lane / 8 % 2), value_lanes(lane / 8 % 2, lane / 16);
  uint4 words[kGroups][2];
  if constexpr (kDropout) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const uint4 block = philox_block(rule, (column + key) / 8 + group * 4 + t);
#pragma unroll
      for (int half = 0; half < 2; ++half) words[group][half] = philox_words(rule, rows[half], block);
    }
  }
  float scores[kNs][4] = {};
#pragma unroll
  for (int d = 0; d < kShortWidth / 16; ++d) {
#pragma unroll
    for (int pair = 0; pair < 2 * kGroups; ++pair) {
      uint32_t b[4];
      cuda::load_matrices(b, key_lanes.at(k, key + pair / 2 * kGroupKeys, pair % 2, 2 * d));
      cuda::mma<N>(scores[2 * pair], q[d], b[0], b[1]);
      cuda::mma<N>(scores[2 * pair + 1], q[d], b[2], b[3]);
    }
  }
  if constexpr (kMasked) {
#pragma unroll
    for (int i = 0; i < 4 * kNs; ++i) {
      const int n = i / 4, e = i % 4, row = query + int(g) + e / 2 * 8;
      const int at = key + n / 4 * kGroupKeys + int(t) * 8 + n % 4 * 2 + e % 2;
      if (!seq.sees(row, at)) scores[n][e] = -INFINITY;
    }
  }
  softmax_step(p.scale * kLog2E, scores, state);
  if constexpr (kDropout) {
    const uint32_t limit = rule.threshold << 16;
#pragma unroll
    for (int i = 0; i < 2 * kNs; ++i) {
      const int n = i / 2, half = i % 2;
      const uint4& four = words[n / 4][half];
      const uint32_t word = n % 4 == 0 ? four.x : n % 4 == 1 ? four.y : n % 4 == 2 ? four.z : four.w;
      if (word << 16 < limit) scores[n][2 * half] = 0;
      if (word < limit) scores[n][2 * half + 1] = 0;
    }
  }
  uint32_t weights[1][kNs / 2][4];
  to_left<N>(reinterpret_cast<const float(&)[1][kNs][4]>(scores), weights);
#pragma unroll
  for (int pair = 0; pair < 2 * kGroups; ++pair) {
#pragma unroll
    for (int n = 0; n < kShortWidth / 8; n += 2) {
      uint32_t b[4];
      cuda::load_matrices_transposed(b, value_lanes.at(v, key + pair / 2 * kGroupKeys, pair % 2, n));
      cuda::mma<N>(state.out[n], weights[0][pair], b[0], b[1]);
      cuda::mma<N>(state.out[n + 1], weights[0][pair], b[2], b[3]);
    }
  }
}

// Normalises and stores the strip's rows of out and lse.
template <class N>
__device__ void finish_strip(const Params<N>& p, const Sequence& seq, int head, int query, uint32_t stage,
                             float keep_scale, StripState& state) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = cuda::warp_reduce<4>(state.total[half], cuda::Sum{});
    const bool blind = total == 0;
    const float factor = blind ? 0 : keep_scale / total;
#pragma unroll
    for (int i = 0; i < kShortWidth / 4; ++i) state.out[i / 2][2 * half + i % 2] *= factor;
    const int row = query + lane / 4 + half * 8;
    if (lane % 4 == 0 && row < seq.q_len) {
      const float lse = fmaf(state.largest[half], p.scale, logf(total));
      p.lse[head * p.lse_stride + seq.q_begin + row] = blind ? 0 : lse;
    }
  }
  store_strip(stage + int(threadIdx.x) / 32 * kStripBytes, state.out, p.out, seq.q_begin + query, head * p.head_dim,
              seq.q_len - query, p.head_dim);
}

// Waits until the quarters that contain keys below `end` are loaded, for all threads.
__device__ inline void wait_for_keys(int end) {
  if (end <= kQuarter) {
    cuda::wait_for_groups<3>();
  } else if (end <= 2 * kQuarter) {
    cuda::wait_for_groups<2>();
  } else if (end <= 3 * kQuarter) {
    cuda::wait_for_groups<1>();
  } else {
    cuda::wait_for_groups<0>();
  }
  __syncthreads();
}

template <class N, bool kDropout>
__global__ void __launch_bounds__(kThreads, 3) short_forward_kernel(const Params<N> p) {
  extern __shared__ uint4 shared[];
  const int head = int(blockIdx.x) % p.heads, key_column = head / p.group * p.head_dim, column = head * p.head_dim;
  const Sequence seq = uniform_sequence(p, int(blockIdx.x) / p.heads);
  const uint32_t k = cuda::shared_address(shared), v = k + KeyRows::kBytes, stage = k + kStagesAt;
  const int warp = uniform(int(threadIdx.x) / 32), lane = int(threadIdx.x) % 32;
  const auto strip_of = [&](int quarter) {
    return quarter * kQuarter + (quarter % 2 == 0 ? warp : kWarps - 1 - warp) * kStripQueries;
  };
  // The data for the first products is requested first.
  uint32_t q[4][4];
  load_strip(p, seq, column, strip_of(0), q);
  if (kDropout && threadIdx.x < sizeof(StepScalars) / 16) {
    const auto* const from = reinterpret_cast<const uint4*>(p.scalars) + threadIdx.x;
    cuda::copy_async<16>(k + kScalarsAt + threadIdx.x * 16, from, true);
  }
#pragma unroll 1
  for (int key = 0; key < kShortLen; key += kQuarter) {
    if (key < seq.k_len) {
      load_quarter(k, p.k, seq.k_begin, key, seq.k_len, key_column, p.head_dim);
      load_quarter(v, p.v, seq.k_begin, key, seq.k_len, key_column, p.head_dim);
    }
    cuda::commit_copies();
  }
  // Strips of queries are read on use. The prefetch has brought them into the cache by then.
#pragma unroll
  for (int row = int(threadIdx.x); row < kShortLen + int(threadIdx.x); row += kThreads) {
    if (row < seq.q_len) cuda::prefetch(p.q.at(seq.q_begin + row, column));
  }
  const auto dropout_column = static_cast<uint32_t>(head * p.dropout_columns);
#pragma unroll 1
  for (int quarter = 0; quarter * kQuarter < seq.q_len; ++quarter) {
    wait_for_keys(seq.keys_of({quarter * kQuarter, (quarter + 1) * kQuarter}).end);
    const int query = strip_of(quarter);
    if (query >= seq.q_len) continue;
    const auto* const scalars =
        reinterpret_cast<const StepScalars*>(reinterpret_cast<const char*>(shared) + kScalarsAt);
    const Dropout rule = kDropout ? Dropout(*scalars, p.site) : Dropout(p);
    uint2 rows[2] = {};
    if constexpr (kDropout) {
#pragma unroll
      for (int half = 0; half < 2; ++half) rows[half] = philox_row(rule, seq.q_begin + query + lane / 4 + half * 8);
    }
    StripState state;
    const Range mine{query, query + kStripQueries}, keys = seq.keys_of({query, min(query + kStripQueries, seq.q_len)});
    const auto step = [&]<int kGroups, bool kMasked>(int key) {
      strip_step<N, kGroups, kMasked, kDropout>(p, seq, rule, q, rows, dropout_column, query, key, k, v, state);
    };
    int key = keys.begin / kGroupKeys * kGroupKeys;
#pragma unroll 1
    while (key < keys.end) {
      if (seq.sees_all(mine, {key, key + 2 * kGroupKeys})) {
        step.template operator()<2, false>(key);
        key += 2 * kGroupKeys;
      } else {
        step.template operator()<1, true>(key);
        key += kGroupKeys;
      }
    }
    load_strip(p, seq, column, strip_of(quarter + 1), q);
    finish_strip(p, seq, head, query, stage, kDropout ? rule.scale : 1, state);
  }
  cuda::wait_for_copies();
}

}  // namespace

template <class T>
bool short_forward(ExecContext& ctx, const AttentionArgs& args) {
  const int64_t blocks = args.heads * args.seq.max_seqs;
  // A block processes a whole head. If there are fewer heads than multiprocessors, tiles of queries spread the work
  // better.
  if (!is_short(ctx, args) || blocks < ctx.cuda->num_units()) return false;
  const auto p = make_params<T>(ctx, args);
  if (!p.vectors) return false;
  const cuda::LaunchConfig config{dim3(unsigned(blocks)), kThreads, cuda::stream_of(ctx), kForwardBytes};
  if (args.dropout) {
    cuda::launch(config, short_forward_kernel<cuda::Native<T>, true>, p);
  } else {
    cuda::launch(config, short_forward_kernel<cuda::Native<T>, false>, p);
  }
  return true;
}

template bool short_forward<Bf16>(ExecContext&, const AttentionArgs&);
template bool short_forward<Fp16>(ExecContext&, const AttentionArgs&);

}  // namespace gradmill::flash
