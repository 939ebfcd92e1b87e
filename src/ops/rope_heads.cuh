// SPDX-License-Identifier: Apache-2.0
// How RoPE on a GPU holds heads: distributed over the lanes of a group; each lane has pairs from both halves.
#pragma once

#include <cstdint>

#include "cuda/packed.cuh"
#include "cuda/reduce.cuh"

namespace gradmill {
namespace {

using cuda::Packed;

constexpr int kThreads = 256, kMaxHeadDim = 256;

// The layout of a head: piece p of a lane is the kPack elements from (lane + p * kLanes) * kPack on, in either half.
// Pieces beyond the half read as zeros and are not written.
template <int kPackSize, int kNumLanes, int kNumPieces>
struct Layout {
  static constexpr int kPack = kPackSize, kLanes = kNumLanes, kPieces = kNumPieces, kPairs = kPack * kPieces;
  static constexpr int kGroups = kThreads / kLanes, kHalf = kLanes * kPairs;  // groups per block; the largest half

  __device__ static int group() { return static_cast<int>(threadIdx.x) / kLanes; }
  __device__ static int first() { return static_cast<int>(threadIdx.x) % kLanes * kPack; }
  __device__ static int offset(int piece) { return piece * kLanes * kPack; }  // of a piece, from the first
};

template <class N>
struct Rope {
  const N* in;
  N* out;
  const int32_t* positions;
  const float* cos_sin;
  const N *q_weight, *k_weight;  // null: no QK-norm
  int64_t in_stride, out_stride;
  uint32_t rows, heads, all_heads;
  int head_dim;
  float inverse_dim, eps, weight_offset;
  float direction;  // of the rotation; -1 rotates back
};

// A thread's part of a head, as stored in memory.
template <class N, class L>
struct RawHead {
  using Piece = Packed<N, L::kPack>;
  Piece low[L::kPieces], high[L::kPieces];

  // `from`: the thread's first element.
  template <class Load>
  __device__ static RawHead load(const N* from, int half, bool active, Load&& load_piece) {
    RawHead raw = {};
#pragma unroll
    for (int piece = 0; piece < L::kPieces; ++piece) {
      if (!active || L::first() + L::offset(piece) >= half) continue;
      raw.low[piece] = load_piece(from + L::offset(piece));
      raw.high[piece] = load_piece(from + half + L::offset(piece));
    }
    return raw;
  }
  // Loads data that the caches should keep.
  __device__ static RawHead load(const N* from, int half, bool active) {
    return load(from, half, active, [](const N* at) { return Piece::load(at); });
  }
  __device__ static RawHead load_streaming(const N* from, int half, bool active) {
    return load(from, half, active, [](const N* at) { return Piece::load_streaming(at); });
  }
};

template <class L>
struct Head {
  float low[L::kPairs], high[L::kPairs];

  Head() = default;
  template <class N>
  __device__ explicit Head(const RawHead<N, L>& raw) {
#pragma unroll
    for (int i = 0; i < L::kPairs; ++i) {
      low[i] = raw.low[i / L::kPack][i % L::kPack];
      high[i] = raw.high[i / L::kPack][i % L::kPack];
    }
  }
  // `to`: the thread's first element.
  template <class N>
  __device__ void store(N* to, int half) const {
#pragma unroll
    for (int piece = 0; piece < L::kPieces; ++piece) {
      if (L::first() + L::offset(piece) >= half) continue;
      using Piece = Packed<N, L::kPack>;
      Piece::of([&](int i) { return low[piece * L::kPack + i]; }).store(to + L::offset(piece));
      Piece::of([&](int i) { return high[piece * L::kPack + i]; }).store(to + half + L::offset(piece));
    }
  }
  // Calls visit(element of this head, element of the other) for both halves.
  template <class Visit>
  __device__ void zip(const Head& other, Visit&& visit) {
#pragma unroll
    for (int i = 0; i < L::kPairs; ++i) visit(low[i], other.low[i]), visit(high[i], other.high[i]);
  }
  __device__ void scale(float of_low, float of_high) {
#pragma unroll
    for (int i = 0; i < L::kPairs; ++i) low[i] *= of_low, high[i] *= of_high;
  }
  // `angles`: cosines in the first half, sines in the second.
  __device__ void rotate(const Head& angles) {
#pragma unroll
    for (int i = 0; i < L::kPairs; ++i) {
      const float x = low[i], y = high[i], cosine = angles.low[i], sine = angles.high[i];
      low[i] = fmaf(-y, sine, x * cosine);
      high[i] = fmaf(x, sine, y * cosine);
    }
  }
  // Sum over the head of this * other.
  __device__ float dot(const Head& other) const {
    float of_low = 0, of_high = 0;
#pragma unroll
    for (int i = 0; i < L::kPairs; ++i) {
      of_low = fmaf(low[i], other.low[i], of_low);
      of_high = fmaf(high[i], other.high[i], of_high);
    }
    return cuda::warp_reduce<L::kLanes>(of_low + of_high, cuda::Sum{});
  }
};

// A thread's head, its first row, and the position of its elements in the row. Groups number the heads of rows in
// memory order: a warp may hold parts of two rows, and no lane is idle for any number of heads.
struct Place {
  uint32_t row, head;
  int64_t column;

  template <class L>
  __device__ static Place of(uint32_t all_heads, int head_dim) {
    const uint32_t group = blockIdx.x * L::kGroups + static_cast<uint32_t>(L::group());
    const uint32_t row = group / all_heads, head = group - row * all_heads;
    return {row, head, int64_t{head} * head_dim + L::first()};
  }
};

// Cosines in the first half, sines in the second.
template <class L, class N>
__device__ Head<L> angles_at(const Rope<N>& rope, int position) {
  const float* from = rope.cos_sin + int64_t{position} * rope.head_dim + L::first();
  return Head<L>(RawHead<float, L>::load(from, rope.head_dim / 2, true));
}

// One step of Newton's method makes rsqrtf accurate to one ulp.
template <class L, class N>
__device__ float rstd_of(const Rope<N>& rope, const Head<L>& x) {
  const float variance = fmaf(x.dot(x), rope.inverse_dim, rope.eps), rstd = rsqrtf(variance);
  return fmaf(0.5f * rstd, fmaf(-variance * rstd, rstd, 1.0f), rstd);
}

template <class L, class N>
__device__ Head<L> gain_of(const Rope<N>& rope, bool query) {
  const N* weight = query ? rope.q_weight : rope.k_weight;
  Head<L> gain(RawHead<N, L>::load(weight + L::first(), rope.head_dim / 2, true));
#pragma unroll
  for (int i = 0; i < L::kPairs; ++i) gain.low[i] += rope.weight_offset, gain.high[i] += rope.weight_offset;
  return gain;
}

}  // namespace
}  // namespace gradmill
