// SPDX-License-Identifier: Apache-2.0
// Attention forward on the CPU, for one tile of queries of one head: a running softmax over key tiles (Dao et al.,
// "FlashAttention"). Logits are in units of log 2.
#if defined(GRADMILL_OPS_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADMILL_OPS_ATTENTION_FORWARD_INL_H_
#undef GRADMILL_OPS_ATTENTION_FORWARD_INL_H_
#else
#define GRADMILL_OPS_ATTENTION_FORWARD_INL_H_
#endif

#include <limits>

#include "ops/attention/attention_dropout-inl.h"
#include "ops/attention/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

struct ForwardBuffers {
  HWY_ALIGN float q_transposed[kMaxHeadDim * kAttentionTile];
  HWY_ALIGN float rows[kAttentionTile * kMaxHeadDim];  // q, k or v rows copied to fp32
  HWY_ALIGN float scores[kAttentionTile * kAttentionTile];
  HWY_ALIGN float keep[kAttentionTile * kAttentionTile];
  HWY_ALIGN float out[kAttentionTile * kMaxHeadDim];
  HWY_ALIGN float largest[kAttentionTile];  // largest logit of each query so far
  HWY_ALIGN float total[kAttentionTile];    // sum of its weights, relative to `largest`
  HWY_ALIGN float shrink[kAttentionTile];   // factor that rescales the previous sums to the new maximum
};

// Converts the scores of a vector of queries to weights, and updates the running maximum and sum.
HWY_INLINE void softmax_lanes(const Band& band, Range keys, int64_t query, bool first, ForwardBuffers& b) {
  const Floats lowest = splat(-std::numeric_limits<float>::infinity());
  const Visible visible(band, query);
  const Floats old = first ? lowest : load(b.largest + query);
  Floats largest = old;
  float* scores = b.scores + query;
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    float* at = scores + key * kAttentionTile;
    Floats score = load(at);
    if (!visible.all(key)) {
      score = hn::IfThenElse(visible.lanes_of(key), score, lowest);
      store(score, at);
    }
    largest = hn::Max(largest, score);
  }
  // Without this, a query that has seen no key yet would subtract infinities.
  const Floats base = hn::IfThenElse(hn::Eq(largest, lowest), zeros(), largest);
  Floats total = zeros();
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    float* at = scores + key * kAttentionTile;
    const Floats weight = exp2(hn::Sub(load(at), base));
    total = hn::Add(total, weight);
    store(weight, at);
  }
  if (!first) {
    const Floats shrink = exp2(hn::Sub(old, base));
    total = hn::MulAdd(load(b.total + query), shrink, total);
    store(shrink, b.shrink + query);
  }
  store(largest, b.largest + query);
  store(total, b.total + query);
}

HWY_INLINE void softmax_tile(const Band& band, bool first, ForwardBuffers& b) {
  const auto width = static_cast<int64_t>(lanes());
  for (int64_t query = 0; query < round_up(band.queries, kStrip); query += width) {
    softmax_lanes(band, live_keys(band, query / kStrip * kStrip), query, first, b);
  }
}

HWY_INLINE void drop_weights(const Band& band, ForwardBuffers& b) {
  for (int64_t key = 0; key < band.keys; ++key) {
    const Range queries = live_queries(band, key / kBlock * kBlock);
    float* weights = b.scores + key * kAttentionTile + queries.begin;
    const float* keep = b.keep + key * kAttentionTile + queries.begin;
    for_each_vector(queries.size(),
                    [&](int64_t, auto in, auto out) HWY_ATTR { out(hn::Mul(in(weights), in(keep)), weights); });
  }
}

HWY_INLINE void shrink_rows(int64_t queries, int64_t stride, ForwardBuffers& b) {
  for (int64_t query = 0; query < queries; ++query) {
    if (b.shrink[query] == 1.0f) continue;
    float* row = b.out + query * stride;
    const Floats factor = splat(b.shrink[query]);
    for_each_vector(stride, [&](int64_t, auto in, auto out) HWY_ATTR { out(hn::Mul(in(row), factor), row); });
  }
}

template <class T>
HWY_INLINE void write_out(const AttentionArgs& args, int64_t head, Range rows, int64_t stride, ForwardBuffers& b) {
  const Floats zero = zeros(), log_2 = splat(0.693147180559945309f);
  for_each_vector(rows.size(), [&](int64_t i, auto, auto out) HWY_ATTR {
    const Floats total = load(b.total + i);
    const auto blind = hn::Eq(total, zero);
    const Floats lse = hn::MulAdd(load(b.largest + i), log_2, hn::Log(FloatTag(), total));
    out(hn::IfThenElse(blind, zero, lse), args.lse.row<float>(head) + rows.begin);
    store(hn::IfThenElse(blind, zero, hn::Div(splat(1.0f), total)), b.total + i);
  });
  for (int64_t i = 0; i < rows.size(); ++i) {
    const float* from = b.out + i * stride;
    T* to = args.out.row<T>(rows.begin + i) + head * args.head_dim;
    const Floats factor = splat(b.total[i]);
    for_each_vector(args.head_dim, [&](int64_t, auto in, auto out) HWY_ATTR { out(hn::Mul(in(from), factor), to); });
  }
}

// `terms` can add to the scores of a tile: terms.add_scores(head, queries, keys, band, k, q_transposed, scores), with
// everything in units of log 2.
template <class T, class Terms>
void forward_tile(const AttentionArgs& args, const AttentionDropout& dropout, const SequenceRows& rows, int64_t head,
                  Range queries, Terms& terms) {
  ForwardBuffers b;
  const int64_t head_dim = args.head_dim, stride = round_up(head_dim, static_cast<int64_t>(lanes()));
  const int64_t kv_head = head / (args.heads / args.kv_heads);
  const Range query_rows{rows.queries.begin + queries.begin, rows.queries.begin + queries.end};
  const Rows q = stage_rows<T>(args.q, query_rows, head, head_dim, b.rows);
  transpose_rows(q, queries.size(), head_dim, args.scale * 1.44269504088896341f, b.q_transposed);
  bool first = true;
  for_each_key_tile(args.mask, rows, queries, [&](Range keys, const Band& band) HWY_ATTR {
    const Range key_rows{rows.keys.begin + keys.begin, rows.keys.begin + keys.end};
    const Rows k = stage_rows<T>(args.k, key_rows, kv_head, head_dim, b.rows);
    multiply_scores(band, k, b.q_transposed, head_dim, b.scores);
    terms.add_scores(head, queries, keys, band, k, b.q_transposed, b.scores);
    softmax_tile(band, first, b);
    if (dropout.on) {
      fill_keep(dropout, band, dropout.token_base + static_cast<uint32_t>(query_rows.begin),
                static_cast<uint32_t>(head * dropout_columns(args.seq) + keys.begin), b.keep);
      drop_weights(band, b);
    }
    if (!first) shrink_rows(queries.size(), stride, b);
    const Rows v = stage_rows<T>(args.v, key_rows, kv_head, head_dim, b.rows);
    multiply_queries(band, b.scores, v, head_dim, b.out, stride, !first);
    first = false;
  });
  if (first) {
    std::memset(b.out, 0, static_cast<size_t>(queries.size() * stride) * sizeof(float));
    std::memset(b.total, 0, sizeof(b.total));
  }
  write_out<T>(args, head, query_rows, stride, b);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#endif
