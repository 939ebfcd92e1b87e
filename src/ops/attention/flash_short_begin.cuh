// SPDX-License-Identifier: Apache-2.0
// Flash attention, backward, for short sequences on Hopper: what a block prepares before its loops over a head. See
// attention_flash_short_wgmma.cu. There are no divergent branches here: after one, the compiler would not assume that
// warps have converged, which products and uniform registers require.
#pragma once

#include "ops/attention/flash_short_wgmma.cuh"

namespace gradmill::flash {

// Starts loading the rows of a head of one tensor.
template <class N>
__device__ void load_rows(const HeadRows<const N>& from, int row, int column, int rows, int cols, uint32_t to) {
  load_tile<kShortWidth, kShortLen, kGroupThreads>(to, from.at(row, column), from.stride, rows, cols, true,
                                                   afresh(int(threadIdx.x)));
}
template <class N>
__device__ void load_keys(const Params<N>& p, const Unit& unit, const HeadLayout& at) {
  const int column = unit.kv_head * p.head_dim;
  load_rows(p.k, unit.seq.k_begin, column, unit.seq.k_len, p.head_dim, at.k());
  load_rows(p.v, unit.seq.k_begin, column, unit.seq.k_len, p.head_dim, at.v());
}
template <class N>
__device__ void load_queries(const GradParams<N>& grad, const Unit& unit, const HeadLayout& at, int home) {
  const Params<N>& p = grad.forward;
  const int column = unit.head * p.head_dim;
  load_rows(p.q, unit.seq.q_begin, column, unit.seq.q_len, p.head_dim, at.q(home));
  load_rows(grad.dout, unit.seq.q_begin, column, unit.seq.q_len, p.head_dim, at.dout(home));
}

// OutStrip will read these.
template <class N>
__device__ void prefetch_out(const Params<N>& p, const Unit& unit) {
  const int row = afresh(int(threadIdx.x));
  const int from = row < unit.seq.q_len ? unit.seq.q_begin + row : 0;
  cuda::prefetch(p.out.at(from, unit.head * p.head_dim));
}

// A warp's strip of queries: loads outputs and lse, then stores the head's vectors. delta, the sums of out * dout, is
// the diagonal of the product of the two. The order of columns does not matter for it, so a lane has 16 bytes of a row
// at a time.
template <class N>
class OutStrip {
 public:
  // For missing rows and columns it reads valid memory, whose values are ignored.
  __device__ OutStrip(const Params<N>& p, const Unit& unit, const Place& place) {
    const int lane = afresh(int(threadIdx.x)) % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = place.strip + lane / 4 + half * 8, from = row < unit.seq.q_len ? unit.seq.q_begin + row : 0;
      lse_[half] = p.lse[unit.head * p.lse_stride + from];
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        const int column = (i * 4 + lane % 4) * 8;
        out_[half][i] = Packed::load(p.out.at(from, unit.head * p.head_dim + (column < p.head_dim ? column : 0)));
      }
    }
  }
  // Uses the gradients of outputs in shared memory, with zeros for missing ones.
  __device__ void store(const HeadLayout& at, int home, const Place& place, int q_len, float kept_share) const {
    const int lane = afresh(int(threadIdx.x)) % 32, g = lane / 4, t = lane % 4;
    float sums[2][4] = {};
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      uint4 dout[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t row = place.strip + g + half * 8;
        dout[half] = cuda::load_shared_16(at.dout(home) + Tile<kShortWidth>::offset(row, i * 4 + t));
      }
      const uint32_t(&upper)[4] = out_[0][i].words, (&lower)[4] = out_[1][i].words;
      const uint32_t left[2][4] = {{upper[0], lower[0], upper[1], lower[1]}, {upper[2], lower[2], upper[3], lower[3]}};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        cuda::mma<N>(sums[half], left[0], dout[half].x, dout[half].y);
        cuda::mma<N>(sums[half], left[1], dout[half].z, dout[half].w);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = place.strip + g + half * 8;
      const float sum = g % 2 == 0 ? sums[half][2 * half] : sums[half][2 * half + 1];
      const uint32_t to = at.vectors(row) + g % 2 * 4;
      const bool diagonal = t == g / 2;
      cuda::store_shared_if(diagonal, to, __float_as_uint(row < q_len ? lse_[half] * kLog2E : 0));
      cuda::store_shared_if(diagonal, to + 8, __float_as_uint(row < q_len ? sum * kept_share : 0));
    }
  }

 private:
  using Packed = cuda::Packed<N>;
  static constexpr int kPacks = kShortWidth / 4 / Packed::kSize;

  float lse_[2];
  Packed out_[2][kPacks];
};

// For both strips of a warp.
template <class N>
class OutRows {
 public:
  __device__ OutRows(const Params<N>& p, const Unit& unit, const Place& first, const Place& second)
      : places_{first, second}, strips_{{p, unit, first}, {p, unit, second}} {}
  __device__ void store(const HeadLayout& at, int home, int q_len, float kept_share) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) strips_[i].store(at, home, places_[i], q_len, kept_share);
  }

 private:
  Place places_[2];
  OutStrip<N> strips_[2];
};

// Draws the dropout mask of a strip of keys, for both loops. For 16 queries and the strip, each lane decides eight keys
// of one query, like keep_strips() in flash_short_gradient.cuh.
template <class N>
__device__ void draw_strip(const Params<N>& p, const Unit& unit, const Place& place, const Dropout& at_rule,
                           const HeadLayout& at) {
  const Range seen = unit.seq.queries_of({place.strip, min(place.strip + kStripRows, unit.seq.k_len)});
  const int end = uniform(place.strip < unit.seq.k_len ? seen.end : 0);
  const Dropout rule = at_rule;
  const int lane = afresh(int(threadIdx.x)) % 32, g = lane / 4, t = lane % 4;
  const int mine = g / 4 * 8 + 2 * t + g % 2, chunk = place.strip / 8 + g / 2 % 2;
  const uint4 block = philox_block(rule, static_cast<uint32_t>(unit.head * p.dropout_columns / 8) + chunk);
#pragma unroll 1
  for (int query = uniform(seen.begin / kBlock * kBlock); query < end; query += kBlock) {
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < kBlock / 16; ++i) {
      const uint2 row = philox_row(rule, unit.seq.q_begin + query + mine + 16 * i);
      const uint32_t eight = keep_eight(rule, philox_words(rule, row, block));
      cuda::store_shared_byte(at.query_bits(chunk * 8, query + mine + 16 * i) + chunk % 4, eight);
      bits |= eight << (8 * i);
    }
    bits = exchange_bits(bits, 16, 0x0f0f0f0fu, 4);
    bits = exchange_bits(bits, 8, 0x33333333u, 2);
    bits = exchange_bits(bits, 4, 0x55555555u, 1);
    cuda::store_shared(at.key_bits(place.strip, query) + lane * 4, bits);
  }
}

}  // namespace gradmill::flash
