// SPDX-License-Identifier: Apache-2.0
// The position terms that disentangled attention adds to a tile of attention on the CPU. The rows of the position
// tables for the distances of the tile are gathered into a window, where pair (q, k) uses row r = q - k +
// kAttentionTile - 1. So products with the window are indexed by distance, and no two pairs of one query or one key
// share a row. 16 queries (or keys) need only slightly more than half of the window, so products are computed in strips
// of 16.
#if defined(GRADMILL_OPS_DISENTANGLED_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADMILL_OPS_DISENTANGLED_TERMS_INL_H_
#undef GRADMILL_OPS_DISENTANGLED_TERMS_INL_H_
#else
#define GRADMILL_OPS_DISENTANGLED_TERMS_INL_H_
#endif

#include "ops/attention/attention_tile-inl.h"
#include "ops/disentangled/disentangled_attention_cpu.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

// For the calls see forward_tile() and backward_queries().
template <class T>
class PositionTerms {
 public:
  PositionTerms(const DisentangledAttentionArgs& args, const TableSums& sums)
      : args_(args),
        sums_(sums),
        head_dim_(args.content.head_dim),
        stride_(round_up(head_dim_, static_cast<int64_t>(lanes()))),
        farthest_(args.buckets.numel() / 2) {}

  void add_scores(int64_t head, Range queries, Range keys, const Band&, const Rows& k, const float* q_transposed,
                  float* scores) {
    // Queries and keys up to a whole strip repeat the last one. Their scores are computed but never used.
    const int64_t whole = round_up(queries.size(), kStrip);
    const Range window{kAttentionTile - keys.size(), kAttentionTile - 1 + whole};
    if (args_.pos_k.defined()) {
      stage_window(args_.pos_k, head, queries.begin - keys.begin, window, window_k_);
      for (int64_t strip = 0; strip < whole; strip += kStrip) {
        multiply_window(window_k_, {strip + window.begin, strip + kStrip + kAttentionTile - 1}, q_transposed, strip,
                        by_query_);
      }
      gather_scores(by_query_, 1, 0, whole, keys.size(), scores);
    }
    if (args_.pos_q.defined()) {
      stage_window(args_.pos_q, head, queries.begin - keys.begin, window, window_q_);
      transpose_rows(k, keys.size(), head_dim_, args_.content.scale * 1.44269504088896341f, k_transposed_);
      for (int64_t strip = 0; strip < keys.size(); strip += kStrip) {
        const int64_t begin = std::max(window.begin, kAttentionTile - kStrip - strip);
        multiply_window(window_q_, {begin, window.end - strip}, k_transposed_, strip, by_key_);
      }
      gather_scores(by_key_, 0, 1, whole, keys.size(), scores);
    }
  }

  void add_gradients(int64_t head, Range queries, Range keys, const Rows& q, const Rows& k, const float* dscores,
                     float* dk, int64_t dk_stride, float* dq, int64_t dq_stride) {
    const int64_t ahead = queries.begin - keys.begin;
    const Range window{kAttentionTile - keys.size(), kAttentionTile - 1 + queries.size()};
    if (args_.pos_k.defined()) {
      scatter_gradients(dscores, queries.size(), keys.size(), 1, 0, by_query_);
      std::memset(dwindow_, 0, sizeof(dwindow_));
      for (int64_t strip = 0; strip < queries.size(); strip += kStrip) {
        const int64_t count = std::min(kStrip, queries.size() - strip);
        const Range rows{strip + window.begin, strip + count + kAttentionTile - 1};
        add_products(by_query_, rows, strip, count, window_k_, q, dq, dq_stride);
      }
      add_window(head, ahead, window, sums_.pos_k);
    }
    if (args_.pos_q.defined()) {
      scatter_gradients(dscores, queries.size(), keys.size(), 0, 1, by_key_);
      std::memset(dwindow_, 0, sizeof(dwindow_));
      for (int64_t strip = 0; strip < keys.size(); strip += kStrip) {
        const int64_t count = std::min(kStrip, keys.size() - strip);
        const Range rows{kAttentionTile - strip - count, window.end - strip};
        add_products(by_key_, rows, strip, count, window_q_, k, dk, dk_stride);
      }
      add_window(head, ahead, window, sums_.pos_q);
    }
  }

 private:
  int32_t bucket(int64_t distance) const {
    return args_.buckets.ptr<int32_t>()[std::clamp(distance, -farthest_, farthest_) + farthest_];
  }

  void stage_window(const TensorView& table, int64_t head, int64_t ahead, Range rows, float* to) const {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const T* from = table.row<T>(bucket(ahead + row - (kAttentionTile - 1))) + head * head_dim_;
      float* at = to + row * stride_;
      for_each_vector(head_dim_, [&](int64_t i, auto in, auto) HWY_ATTR { store(in(from), at + i); });
    }
  }

  // to (kWindowRows, kAttentionTile): rows `rows` and the columns of the strip = window · columns.
  void multiply_window(const float* window, Range rows, const float* columns, int64_t strip, float* to) const {
    multiply<false>({.a = window + rows.begin * stride_,
                     .lda = stride_,
                     .b = columns + strip,
                     .ldb = kAttentionTile,
                     .c = to + rows.begin * kAttentionTile + strip,
                     .ldc = kAttentionTile,
                     .rows = rows.size(),
                     .cols = kStrip,
                     .inner = head_dim_,
                     .accumulate = false});
  }

  static int64_t at(int64_t query, int64_t key, int64_t per_query, int64_t per_key) {
    return (query - key + kAttentionTile - 1) * kAttentionTile + query * per_query + key * per_key;
  }

  // scores (keys, kAttentionTile) += each pair's element of `from`, whose columns are queries or keys.
  static void gather_scores(const float* from, int64_t per_query, int64_t per_key, int64_t queries, int64_t keys,
                            float* scores) {
    const hn::RebindToSigned<FloatTag> i32;
    const auto width = static_cast<int64_t>(lanes());
    const auto steps = hn::Mul(hn::Iota(i32, 0), hn::Set(i32, static_cast<int32_t>(kAttentionTile + per_query)));
    for (int64_t key = 0; key < keys; ++key) {
      float* row = scores + key * kAttentionTile;
      for (int64_t query = 0; query < queries; query += width) {
        const Floats term = hn::GatherIndex(FloatTag(), from + at(query, key, per_query, per_key), steps);
        store(hn::Add(load(row + query), term), row + query);
      }
    }
  }

  static void scatter_gradients(const float* dscores, int64_t queries, int64_t keys, int64_t per_query, int64_t per_key,
                                float* to) {
    std::memset(to, 0, sizeof(float) * kWindowRows * kAttentionTile);
    for (int64_t key = 0; key < keys; ++key) {
      for (int64_t query = 0; query < queries; ++query) {
        to[at(query, key, per_query, per_key)] = dscores[key * kAttentionTile + query];
      }
    }
  }

  // For a strip of queries (or keys): adds their gradients through the window, and the window's gradients through them.
  void add_products(const float* dscores, Range rows, int64_t strip, int64_t count, const float* window,
                    const Rows& contents, float* dcontents, int64_t dstride) {
    const float* tile = dscores + rows.begin * kAttentionTile + strip;
    multiply<true>({.a = tile,
                    .lda = kAttentionTile,
                    .b = window + rows.begin * stride_,
                    .ldb = stride_,
                    .c = dcontents + strip * dstride,
                    .ldc = dstride,
                    .rows = count,
                    .cols = head_dim_,
                    .inner = rows.size(),
                    .accumulate = true});
    multiply<false>({.a = tile,
                     .lda = kAttentionTile,
                     .b = contents.data + strip * contents.stride,
                     .ldb = contents.stride,
                     .c = dwindow_ + rows.begin * stride_,
                     .ldc = stride_,
                     .rows = rows.size(),
                     .cols = head_dim_,
                     .inner = count,
                     .accumulate = true});
  }

  void add_window(int64_t head, int64_t ahead, Range rows, float* sums) const {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      float* to = sums + bucket(ahead + row - (kAttentionTile - 1)) * sums_.stride + head * head_dim_;
      const float* from = dwindow_ + row * stride_;
      for_each_vector(head_dim_, [&](int64_t i, auto in, auto out)
                                     HWY_ATTR { out(hn::Add(in(static_cast<const float*>(to)), load(from + i)), to); });
    }
  }

  const DisentangledAttentionArgs& args_;
  TableSums sums_;
  int64_t head_dim_, stride_;
  int64_t farthest_;  // largest distance in the buckets
  HWY_ALIGN float window_k_[kWindowRows * kMaxHeadDim];
  HWY_ALIGN float window_q_[kWindowRows * kMaxHeadDim];
  HWY_ALIGN float dwindow_[kWindowRows * kMaxHeadDim];
  HWY_ALIGN float k_transposed_[kMaxHeadDim * kAttentionTile];
  HWY_ALIGN float by_query_[kWindowRows * kAttentionTile];  // (distance, query): scores, then their gradients
  HWY_ALIGN float by_key_[kWindowRows * kAttentionTile];
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#endif
