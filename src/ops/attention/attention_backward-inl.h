// SPDX-License-Identifier: Apache-2.0
// Attention backward on the CPU for one key head of one sequence. dk and dv have a single writer, which adds in a fixed
// order. Weights are recomputed from the saved log-sum-exp.
#if defined(GRADMILL_OPS_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADMILL_OPS_ATTENTION_BACKWARD_INL_H_
#undef GRADMILL_OPS_ATTENTION_BACKWARD_INL_H_
#else
#define GRADMILL_OPS_ATTENTION_BACKWARD_INL_H_
#endif

#include "ops/attention/attention_dropout-inl.h"
#include "ops/attention/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

struct BackwardBuffers {
  HWY_ALIGN float q_transposed[kMaxHeadDim * kAttentionTile];
  HWY_ALIGN float dout_transposed[kMaxHeadDim * kAttentionTile];
  HWY_ALIGN float q[kAttentionTile * kMaxHeadDim];  // rows copied to fp32
  HWY_ALIGN float dout[kAttentionTile * kMaxHeadDim];
  HWY_ALIGN float k[kAttentionTile * kMaxHeadDim];
  HWY_ALIGN float v[kAttentionTile * kMaxHeadDim];
  HWY_ALIGN float dq[kAttentionTile * kMaxHeadDim];
  HWY_ALIGN float weights[kAttentionTile * kAttentionTile];
  HWY_ALIGN float dscores[kAttentionTile * kAttentionTile];
  HWY_ALIGN float keep[kAttentionTile * kAttentionTile];
  HWY_ALIGN float lse[kAttentionTile];    // in units of log 2
  HWY_ALIGN float delta[kAttentionTile];  // sums of out * dout
};

// One tile of queries of one head.
struct QueryTile {
  int64_t head;
  Range queries;  // positions in the sequence
  Range rows;     // rows in the batch
  Rows q, dout;
};

template <class T>
HWY_INLINE QueryTile load_queries(const AttentionGradArgs& args, const SequenceRows& rows, int64_t head, Range queries,
                                  BackwardBuffers& b) {
  const AttentionArgs& forward = args.forward;
  const int64_t head_dim = forward.head_dim;
  const Range query_rows{rows.queries.begin + queries.begin, rows.queries.begin + queries.end};
  const QueryTile tile{head, queries, query_rows, stage_rows<T>(forward.q, query_rows, head, head_dim, b.q),
                       stage_rows<T>(args.dout, query_rows, head, head_dim, b.dout)};
  constexpr float kLog2E = 1.44269504088896341f;
  transpose_rows(tile.q, queries.size(), head_dim, forward.scale * kLog2E, b.q_transposed);
  transpose_rows(tile.dout, queries.size(), head_dim, 1, b.dout_transposed);
  const float* lse = forward.lse.row<float>(head) + query_rows.begin;
  for (int64_t i = 0; i < round_up(queries.size(), kStrip); ++i) {
    const int64_t query = std::min(i, queries.size() - 1);
    const float* dout = tile.dout.data + query * tile.dout.stride;
    const T* out = forward.out.row<T>(query_rows.begin + query) + head * head_dim;
    Floats sum = zeros();
    for_each_vector(head_dim,
                    [&](int64_t at, auto in, auto) HWY_ATTR { sum = hn::MulAdd(in(out), load(dout + at), sum); });
    b.delta[i] = sum_lanes(sum);
    b.lse[i] = lse[query] * kLog2E;
  }
  return tile;
}

// Converts in place: scores become dropped weights, and gradients of dropped weights become gradients of scores.
template <bool kDropout>
HWY_INLINE void softmax_gradient(const Band& band, float scale, BackwardBuffers& b) {
  const auto width = static_cast<int64_t>(lanes());
  const Floats scales = splat(scale);
  for (int64_t query = 0; query < round_up(band.queries, kStrip); query += width) {
    const Range keys = live_keys(band, query / kStrip * kStrip);
    const Visible visible(band, query);
    const Floats lse = load(b.lse + query), delta = load(b.delta + query);
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      const int64_t at = key * kAttentionTile + query;
      Floats weight = exp2(hn::Sub(load(b.weights + at), lse));
      if (!visible.all(key)) weight = hn::IfThenElseZero(visible.lanes_of(key), weight);
      Floats dweight = load(b.dscores + at), dropped = weight;
      if constexpr (kDropout) {
        const Floats keep = load(b.keep + at);
        dweight = hn::Mul(dweight, keep);
        dropped = hn::Mul(dropped, keep);
      }
      store(dropped, b.weights + at);
      store(hn::Mul(hn::Mul(weight, scales), hn::Sub(dweight, delta)), b.dscores + at);
    }
  }
}

// Accumulators of dk and dv: fp32 rows of one key head of one sequence.
struct KeyGradients {
  float *dk, *dv;
  int64_t dk_stride, dv_stride;
};

// `terms` adds to the scores as in forward_tile(), and receives their gradients through terms.add_gradients(head,
// queries, keys, q, k, dscores, dk, dk_stride, dq, dq_stride), when dq and dk already contain the contribution of the
// contents.
template <class T, class Terms>
void backward_queries(const AttentionGradArgs& args, const AttentionDropout& dropout, const SequenceRows& rows,
                      int64_t head, Range queries, const KeyGradients& gradients, BackwardBuffers& b, Terms& terms) {
  const AttentionArgs& forward = args.forward;
  const int64_t head_dim = forward.head_dim, stride = round_up(head_dim, static_cast<int64_t>(lanes()));
  const int64_t kv_head = head / (forward.heads / forward.kv_heads);
  const QueryTile tile = load_queries<T>(args, rows, head, queries, b);
  bool first = true;
  for_each_key_tile(forward.mask, rows, queries, [&](Range keys, const Band& band) HWY_ATTR {
    const Range key_rows{rows.keys.begin + keys.begin, rows.keys.begin + keys.end};
    const Rows k = stage_rows<T>(forward.k, key_rows, kv_head, head_dim, b.k);
    const Rows v = stage_rows<T>(forward.v, key_rows, kv_head, head_dim, b.v);
    multiply_scores(band, k, b.q_transposed, head_dim, b.weights);
    terms.add_scores(head, queries, keys, band, k, b.q_transposed, b.weights);
    multiply_scores(band, v, b.dout_transposed, head_dim, b.dscores);
    if (dropout.on) {
      fill_keep(dropout, band, dropout.token_base + static_cast<uint32_t>(tile.rows.begin),
                static_cast<uint32_t>(head * dropout_columns(forward.seq) + keys.begin), b.keep);
      softmax_gradient<true>(band, forward.scale, b);
    } else {
      softmax_gradient<false>(band, forward.scale, b);
    }
    multiply_keys(band, b.weights, tile.dout, head_dim, gradients.dv + keys.begin * gradients.dv_stride,
                  gradients.dv_stride);
    multiply_keys(band, b.dscores, tile.q, head_dim, gradients.dk + keys.begin * gradients.dk_stride,
                  gradients.dk_stride);
    multiply_queries(band, b.dscores, k, head_dim, b.dq, stride, !first);
    terms.add_gradients(head, queries, keys, tile.q, k, b.dscores, gradients.dk + keys.begin * gradients.dk_stride,
                        gradients.dk_stride, b.dq, stride);
    first = false;
  });
  for (int64_t i = 0; i < queries.size(); ++i) {
    const float* from = b.dq + i * stride;
    T* to = args.dq.row<T>(tile.rows.begin + i) + head * head_dim;
    for_each_vector(head_dim, [&](int64_t, auto in, auto out) HWY_ATTR { out(first ? zeros() : in(from), to); });
  }
}

template <class T>
HWY_INLINE void convert_rows(const float* from, int64_t from_stride, const TensorView& to, Range rows, int64_t col,
                             int64_t cols) {
  for (int64_t row = rows.begin; row < rows.end; ++row, from += from_stride) {
    T* at = to.row<T>(row) + col;
    for_each_vector(cols, [&](int64_t, auto in, auto out) HWY_ATTR { out(in(from), at); });
  }
}

template <class T, class Terms>
void backward_keys(const AttentionGradArgs& args, const AttentionDropout& dropout, const TensorView& accumulator,
                   const SequenceRows& rows, int64_t kv_head, Terms& terms) {
  BackwardBuffers b;
  const AttentionArgs& forward = args.forward;
  const int64_t head_dim = forward.head_dim, col = kv_head * head_dim, group = forward.heads / forward.kv_heads;
  KeyGradients sums;
  if constexpr (std::is_same_v<T, float>) {
    sums = {args.dk.row<float>(rows.keys.begin) + col, args.dv.row<float>(rows.keys.begin) + col, args.dk.row_stride,
            args.dv.row_stride};
  } else {
    float* dk = accumulator.row<float>(rows.keys.begin) + col;
    sums = {dk, dk + forward.k.rows() * accumulator.row_stride, accumulator.row_stride, accumulator.row_stride};
  }
  for (int64_t key = 0; key < rows.keys.size(); ++key) {
    std::fill_n(sums.dk + key * sums.dk_stride, head_dim, 0.0f);
    std::fill_n(sums.dv + key * sums.dv_stride, head_dim, 0.0f);
  }
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int64_t query = 0; query < rows.queries.size(); query += kAttentionTile) {
      const Range queries{query, std::min(query + kAttentionTile, rows.queries.size())};
      backward_queries<T>(args, dropout, rows, head, queries, sums, b, terms);
    }
  }
  if constexpr (!std::is_same_v<T, float>) {
    convert_rows<T>(sums.dk, sums.dk_stride, args.dk, rows.keys, col, head_dim);
    convert_rows<T>(sums.dv, sums.dv_stride, args.dv, rows.keys, col, head_dim);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#endif
