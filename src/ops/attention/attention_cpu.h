// SPDX-License-Identifier: Apache-2.0
// Common definitions of the CPU's attention kernels: tiles, visibility of their elements, and parameters of dropout.
#pragma once

#include <algorithm>

#include "core/rng.h"
#include "cpu/thread_pool.h"
#include "ops/attention/attention.h"

namespace gradmill::attention {

// Number of queries and of keys in a tile. With heads of 64, every operand of a GEMM fits half of the first-level
// cache.
inline constexpr int64_t kAttentionTile = 64;
inline constexpr int64_t kMaxHeadDim = 256;

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

inline int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// The rows of one sequence. `ahead` is the position of its first query.
struct SequenceRows {
  Range queries, keys;
  int64_t ahead;
};
inline SequenceRows sequence_rows(const SeqLayout& seq, int64_t index) {
  const int32_t *q = seq.cu_q.ptr<int32_t>() + index, *kv = seq.cu_kv.ptr<int32_t>() + index;
  const Range queries{q[0], q[1]}, keys{kv[0], kv[1]};
  return {queries, keys, keys.size() - queries.size()};
}

// Key k of a tile is visible to query q iff q + low <= k <= q + high, both counted from the tile's first element.
struct Band {
  int64_t queries, keys;
  int64_t low, high;

  // The keys that queries [begin, end) can see, and the queries that can see keys [begin, end). Both are gap-free
  // ranges.
  Range keys_of(int64_t begin, int64_t end) const { return cut({begin + low, std::min(end, queries) + high}, keys); }
  Range queries_of(int64_t begin, int64_t end) const { return cut({begin - high, std::min(end, keys) - low}, queries); }
  bool empty() const { return keys_of(0, queries).empty(); }

 private:
  static Range cut(Range range, int64_t size) {
    range = {std::max<int64_t>(range.begin, 0), std::min(range.end, size)};
    return range.empty() ? Range{} : range;
  }
};

// `ahead`: the position of the tile's first query minus that of its first key.
inline Band make_band(const AttentionMask& mask, int64_t queries, int64_t keys, int64_t ahead) {
  constexpr int64_t kNoLimit = 2 * kAttentionTile;
  return {queries, keys, mask.left < 0 ? -kNoLimit : ahead - mask.left, mask.right < 0 ? kNoLimit : ahead + mask.right};
}

// Calls visit(keys, band) for the key tiles (counted from the sequence's first key) that some query of the tile sees.
template <class Visit>
void for_each_key_tile(const AttentionMask& mask, const SequenceRows& rows, Range queries, Visit&& visit) {
  for (int64_t key = 0; key < rows.keys.size(); key += kAttentionTile) {
    const Range keys{key, std::min(key + kAttentionTile, rows.keys.size())};
    const Band band = make_band(mask, queries.size(), keys.size(), rows.ahead + queries.begin - key);
    if (!band.empty()) visit(keys, band);
  }
}

// Clears the rows that belong to no sequence.
template <class T>
void clear_rows(const TensorView& view, int64_t begin) {
  for (int64_t row = begin; row < view.rows(); ++row) std::fill_n(view.row<T>(row), view.cols(), T{});
}

// For the forward: calls tile(rows, head, queries) for every tile of queries, one task each, and clears the rows that
// belong to no sequence.
template <class T, class Tile>
void forward_tiles(ExecContext& ctx, const AttentionArgs& args, const Tile& tile) {
  const int64_t tiles = round_up(std::min(args.seq.max_len, args.q.rows()), kAttentionTile) / kAttentionTile;
  ctx.pool->run(args.seq.max_seqs * args.heads * tiles, [&](int64_t index) {
    const SequenceRows rows = sequence_rows(args.seq, index / tiles / args.heads);
    const int64_t query = index % tiles * kAttentionTile;
    const Range queries{query, std::min(query + kAttentionTile, rows.queries.size())};
    if (!queries.empty()) tile(rows, index / tiles % args.heads, queries);
  });
  const int64_t padding = args.seq.cu_q.ptr<int32_t>()[args.seq.max_seqs];
  clear_rows<T>(args.out, padding);
  for (int64_t head = 0; head < args.heads; ++head) {
    std::fill(args.lse.row<float>(head) + padding, args.lse.row<float>(head) + args.q.rows(), 0.0f);
  }
}

struct AttentionDropout {
  bool on = false;
  uint64_t seed = 0;
  uint32_t site = 0, step = 0, token_base = 0;
  uint32_t threshold = 0;
  float scale = 1;  // factor for the weights that are kept
};
inline AttentionDropout attention_dropout(const ExecContext& ctx, const AttentionArgs& args) {
  if (!args.dropout || ctx.scalars->dropout == 0) return {};
  const StepScalars& scalars = *ctx.scalars;
  const uint32_t threshold = drop_threshold(scalars.dropout);
  return {.on = true,
          .seed = scalars.seed,
          .site = args.dropout_site,
          .step = scalars.step,
          .token_base = scalars.token_base,
          .threshold = threshold,
          .scale = drop_scale(threshold)};
}

}  // namespace gradmill::attention
