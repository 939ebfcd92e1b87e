// SPDX-License-Identifier: Apache-2.0
// Vectorised Philox over consecutive blocks, with the same bits as core/rng.h. Included once per Highway target, like
// simd-inl.h.
#if defined(GRADMILL_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADMILL_CPU_PHILOX_INL_H_
#undef GRADMILL_CPU_PHILOX_INL_H_
#else
#define GRADMILL_CPU_PHILOX_INL_H_
#endif

#include "core/rng.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gradmill {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// words[4b + i] = philox(seed, {counter[0] + b, counter[1], counter[2], counter[3]})[i] for b in [0, blocks). Whole
// vectors are written, so `words` must have space for `blocks` rounded up to a multiple of kPhiloxBlocks.
inline constexpr int64_t kPhiloxBlocks = HWY_MAX_BYTES / sizeof(uint64_t);

HWY_INLINE void philox_words(uint64_t seed, const RandomBlock& counter, int64_t blocks, uint32_t* words) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  // The lower half of each 64-bit lane holds one block's word. The contents of the upper half do not matter: the
  // multiply reads lower halves only, and the last lines drop the upper ones.
  const auto multiply = [&](auto word, uint32_t by)
                            HWY_ATTR { return hn::MulEven(hn::BitCast(d32, word), hn::Set(d32, by)); };
  const auto pair = [&](auto low, auto high) HWY_ATTR {
    return hn::BitCast(d, hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(high)), hn::BitCast(d32, low)));
  };
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  auto first = hn::Iota(d, counter[0]);
  for (int64_t block = 0; block < blocks; block += width, first = hn::Add(first, hn::Set(d, hn::Lanes(d)))) {
    auto c0 = first;
    auto c1 = hn::Set(d, counter[1]), c2 = hn::Set(d, counter[2]), c3 = hn::Set(d, counter[3]);
    auto key0 = hn::Set(d, seed), key1 = hn::Set(d, seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const auto product0 = multiply(c0, 0xD2511F53u), product1 = multiply(c2, 0xCD9E8D57u);
      c0 = hn::Xor(hn::ShiftRight<32>(product1), hn::Xor(c1, key0));
      c1 = product1;
      c2 = hn::Xor(hn::ShiftRight<32>(product0), hn::Xor(c3, key1));
      c3 = product0;
      key0 = hn::Add(key0, hn::Set(d, uint64_t{0x9E3779B9u}));
      key1 = hn::Add(key1, hn::Set(d, uint64_t{0xBB67AE85u}));
    }
    hn::StoreInterleaved2(pair(c0, c1), pair(c2, c3), d, reinterpret_cast<uint64_t*>(words + 4 * block));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gradmill
HWY_AFTER_NAMESPACE();

#endif
