// SPDX-License-Identifier: Apache-2.0
// The parameters of flash attention's kernels, and what a block derives from them: its sequence and its visible pairs.
#pragma once

#include <algorithm>

#include "core/step_scalars.h"
#include "cuda/engine.h"
#include "cuda/numeric.cuh"
#include "ops/attention/attention.h"

namespace gradmill::flash {

inline constexpr float kLog2E = 1.44269504088896341f;

// Rows of several heads side by side.
template <class N>
struct HeadRows {
  N* data;
  int64_t stride;
  __device__ N* at(int row, int column) const { return data + row * stride + column; }
};

template <class N>
struct Params {
  HeadRows<const N> q, k, v;
  HeadRows<N> out;
  float* lse;  // (H, N)
  int64_t lse_stride;
  const int32_t *cu_q, *cu_kv;
  int dense_len;     // length of every sequence, or 0: then the two arrays above are used
  int heads, group;  // query heads; query heads per key head
  int head_dim;
  float scale;
  int left, right;             // as in AttentionMask, or kNoLimit
  bool vectors;                // rows of all tensors can be moved 16 bytes at a time
  const StepScalars* scalars;  // null: no dropout
  uint32_t site;
  int64_t dropout_columns;
};

template <class N>
struct GradParams {
  Params<N> forward;
  HeadRows<const N> dout;
  HeadRows<N> dq, dk, dv;
  float* delta;  // (H, N) sum of out * dout
};

inline constexpr int kNoLimit = 1 << 29;

template <class T>
Params<cuda::Native<T>> make_params(const ExecContext& ctx, const AttentionArgs& args) {
  using N = cuda::Native<T>;
  const auto rows = [](const TensorView& view) { return HeadRows<N>{cuda::native<T>(view), view.row_stride}; };
  const auto read = [](const TensorView& view) { return HeadRows<const N>{cuda::native<T>(view), view.row_stride}; };
  const auto limit = [](int64_t keys) { return keys < 0 ? kNoLimit : int(std::min<int64_t>(keys, kNoLimit)); };
  bool vectors = args.head_dim % (16 / int64_t(sizeof(T))) == 0;
  for (const TensorView& view : {args.q, args.k, args.v, args.out}) {
    vectors = vectors && cuda::rows_are_aligned<T>(view);
  }
  return {.q = read(args.q),
          .k = read(args.k),
          .v = read(args.v),
          .out = rows(args.out),
          .lse = args.lse.ptr<float>(),
          .lse_stride = args.lse.row_stride,
          .cu_q = args.seq.cu_q.ptr<int32_t>(),
          .cu_kv = args.seq.cu_kv.ptr<int32_t>(),
          .dense_len = args.seq.dense ? int(args.seq.max_len) : 0,
          .heads = int(args.heads),
          .group = int(args.heads / args.kv_heads),
          .head_dim = int(args.head_dim),
          .scale = args.scale,
          .left = limit(args.mask.left),
          .right = limit(args.mask.right),
          .vectors = vectors,
          .scalars = args.dropout ? ctx.scalars : nullptr,
          .site = args.dropout_site,
          .dropout_columns = dropout_columns(args.seq)};
}

template <class T>
GradParams<cuda::Native<T>> make_params(const ExecContext& ctx, const AttentionGradArgs& args,
                                        const TensorView& scratch) {
  GradParams<cuda::Native<T>> p{
      .forward = make_params<T>(ctx, args.forward),
      .dout = {cuda::native<T>(args.dout), args.dout.row_stride},
      .dq = {cuda::native<T>(args.dq), args.dq.row_stride},
      .dk = {cuda::native<T>(args.dk), args.dk.row_stride},
      .dv = {cuda::native<T>(args.dv), args.dv.row_stride},
      .delta = scratch.ptr<float>(),
  };
  for (const TensorView& view : {args.dout, args.dq, args.dk, args.dv}) {
    p.forward.vectors = p.forward.vectors && cuda::rows_are_aligned<T>(view);
  }
  return p;
}

// The number of tiles of `size` rows in the longest possible sequence, for a tensor with `rows` rows.
inline int num_tiles(const SeqLayout& seq, int64_t rows, int size) {
  return int((std::min(seq.max_len, rows) + size - 1) / size);
}

// Whether there can be rows after the last sequence.
inline bool has_padding(const SeqLayout& seq, int64_t rows) { return !seq.dense || seq.max_seqs * seq.max_len != rows; }

struct Range {
  int begin, end;
};

// One sequence. Query q and key k are counted from its first query and key: q sees k iff q + low <= k <= q + high.
struct Sequence {
  int q_begin, q_len, k_begin, k_len;
  int low, high;

  template <class N>
  __device__ Sequence(const Params<N>& p, int index) {
    if (p.dense_len > 0) {  // no memory access to wait for
      q_begin = k_begin = index * p.dense_len;
      q_len = k_len = p.dense_len;
    } else {
      q_begin = p.cu_q[index];
      q_len = p.cu_q[index + 1] - q_begin;
      k_begin = p.cu_kv[index];
      k_len = p.cu_kv[index + 1] - k_begin;
    }
    low = k_len - q_len - p.left;
    high = k_len - q_len + p.right;
  }

  // The keys that one of these queries sees, and the queries that see one of these keys. Gap-free ranges, possibly
  // empty.
  __device__ Range keys_of(Range queries) const {
    return {max(0, queries.begin + low), min(k_len, queries.end + high)};
  }
  __device__ Range queries_of(Range keys) const { return {max(0, keys.begin - high), min(q_len, keys.end - low)}; }
  __device__ bool sees_any(Range queries, Range keys) const {
    return queries.begin < q_len && keys.begin < k_len && keys.begin < queries.end + high &&
           keys.end > queries.begin + low;
  }
  __device__ bool sees_all(Range queries, Range keys) const {
    return keys.end <= k_len && keys.end - 1 <= queries.begin + high && keys.begin >= queries.end - 1 + low;
  }
  __device__ bool sees(int query, int key) const {
    return key < k_len && static_cast<uint32_t>(key - query - low) <= static_cast<uint32_t>(high - low);
  }
};

}  // namespace gradmill::flash
