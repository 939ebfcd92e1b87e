// SPDX-License-Identifier: Apache-2.0
#include "core/rng.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gradmill {
namespace {

// kat_vectors of Random123, the authors' library, for philox4x32 with seven rounds.
TEST(Rng, KnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (RandomBlock{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(philox(~uint64_t{0}, {~0u, ~0u, ~0u, ~0u}), (RandomBlock{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (RandomBlock{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}));
}

TEST(Rng, EveryCoordinateMatters) {
  const RandomBlock base = random_words(1, 2, 3, 4, 5);
  EXPECT_EQ(base, random_words(1, 2, 3, 4, 5));
  EXPECT_NE(base, random_words(9, 2, 3, 4, 5));
  EXPECT_NE(base, random_words(1, 9, 3, 4, 5));
  EXPECT_NE(base, random_words(1, 2, 9, 4, 5));
  EXPECT_NE(base, random_words(1, 2, 3, 9, 5));
  EXPECT_NE(base, random_words(1, 2, 3, 4, 9));
}

TEST(Rng, UniformStaysBelowOne) {
  EXPECT_EQ(to_uniform(0), 0.0f);
  EXPECT_LT(to_uniform(~0u), 1.0f);
  EXPECT_EQ(to_uniform(0x80000000u), 0.5f);
}

TEST(Rng, NormalHasItsMoments) {
  double sum = 0, squares = 0, fourth = 0;
  constexpr int kBlocks = 10000;
  for (uint32_t i = 0; i < kBlocks; ++i) {
    const RandomBlock words = philox(7, {i, 0, 0, 0});
    for (float x : to_normal(words[0], words[1])) {
      ASSERT_TRUE(std::isfinite(x));
      sum += x;
      squares += double(x) * x;
      fourth += std::pow(double(x), 4);
    }
  }
  // Five standard errors for each.
  const double count = 2.0 * kBlocks;
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(fourth / count, 3, 5 * std::sqrt(96 / count));
  EXPECT_TRUE(std::isfinite(to_normal(0, 0)[0]));
}

TEST(Rng, ThresholdIsAFractionOfSixteenBits) {
  EXPECT_EQ(drop_threshold(0), 0u);
  EXPECT_EQ(drop_threshold(0.5f), 0x8000u);
  EXPECT_EQ(drop_threshold(0.25f), 0x4000u);
  EXPECT_EQ(drop_threshold(0.2f), 13107u);
  EXPECT_EQ(drop_threshold(std::nextafter(1.0f, 0.0f)), 0xffffu);  // some elements are always kept
  EXPECT_EQ(drop_scale(0), 1);
  EXPECT_EQ(drop_scale(0x8000), 2);
}

TEST(Rng, AWordDecidesTwoColumnsTheLowHalfFirst) {
  const RandomBlock words = {0x00050004, 0x00040005, 0xffff0000, 0x0005ffff};
  const bool expected[] = {false, true, true, false, false, true, true, true};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(keeps(words, i, 5), expected[i]) << i;
}

}  // namespace
}  // namespace gradmill
