// SPDX-License-Identifier: Apache-2.0
// Dropout of attention weights with the Philox of core/rng.h, for a vector of queries and eight neighbouring keys at a
// time.
#if defined(GRADMILL_OPS_ATTENTION_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADMILL_OPS_ATTENTION_DROPOUT_INL_H_
#undef GRADMILL_OPS_ATTENTION_DROPOUT_INL_H_
#else
#define GRADMILL_OPS_ATTENTION_DROPOUT_INL_H_
#endif

#include "ops/attention/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace {

using WordTag = hn::RebindToUnsigned<FloatTag>;
using Words = hn::Vec<WordTag>;

struct WordBlock {
  Words c0, c1, c2, c3;
};

HWY_INLINE Words multiply_high(Words a, Words b) {
  const hn::RepartitionToWide<WordTag> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(WordTag(), hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  return hn::OddEven(hn::BitCast(WordTag(), odd), hn::BitCast(WordTag(), hn::ShiftRight<32>(even)));
}

HWY_INLINE WordBlock philox_lanes(uint64_t seed, WordBlock c) {
  const WordTag d;
  const Words mul0 = hn::Set(d, 0xD2511F53u), mul1 = hn::Set(d, 0xCD9E8D57u);
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const Words high0 = multiply_high(c.c0, mul0), high1 = multiply_high(c.c2, mul1);
    const Words low0 = hn::Mul(c.c0, mul0), low1 = hn::Mul(c.c2, mul1);
    c = {hn::Xor(hn::Xor(high1, c.c1), hn::Set(d, key0)), low1, hn::Xor(hn::Xor(high0, c.c3), hn::Set(d, key1)), low0};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

// Sets keep (keys, kAttentionTile) to 0 or dropout.scale in the visible patches. `token` is the coordinate of the first
// query, `column` that of the first key.
HWY_INLINE void fill_keep(const AttentionDropout& dropout, const Band& band, uint32_t token, uint32_t column,
                          float* keep) {
  const WordTag d;
  const auto width = static_cast<int64_t>(lanes());
  const Words threshold = hn::Set(d, dropout.threshold);
  const auto drop = [&](Words half, int64_t key, Range keys, int64_t query) HWY_ATTR {
    if (key < keys.begin || key >= keys.end) return;
    const auto dropped = hn::RebindMask(FloatTag(), hn::Lt(half, threshold));
    store(hn::IfThenZeroElse(dropped, splat(dropout.scale)), keep + key * kAttentionTile + query);
  };
  const auto drop_two = [&](Words word, int64_t key, Range keys, int64_t query) HWY_ATTR {
    drop(hn::And(word, hn::Set(d, 0xffffu)), key, keys, query);
    drop(hn::ShiftRight<16>(word), key + 1, keys, query);
  };
  for (int64_t query = 0; query < round_up(band.queries, kStrip); query += width) {
    const Range keys = live_keys(band, query / kStrip * kStrip);
    const Words tokens = hn::Iota(d, token + static_cast<uint32_t>(query));
    for (int64_t key = keys.begin - (column + keys.begin) % 8; key < keys.end; key += 8) {
      const auto block = static_cast<uint32_t>((column + key) / 8);
      const WordBlock words =
          philox_lanes(dropout.seed, {hn::Set(d, block), tokens, hn::Set(d, dropout.step), hn::Set(d, dropout.site)});
      drop_two(words.c0, key, keys, query);
      drop_two(words.c1, key + 2, keys, query);
      drop_two(words.c2, key + 4, keys, query);
      drop_two(words.c3, key + 6, keys, query);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#endif
