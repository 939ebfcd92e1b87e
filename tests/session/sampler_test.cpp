// SPDX-License-Identifier: Apache-2.0
// Samples follow the distribution that remains after temperature, top-k and top-p.
#include "session/sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace gradmill::test {
namespace {

using Probabilities = std::array<double, 4>;

// The tokens are not in order, so that a sort that lost them would be noticed.
constexpr Probabilities kProbabilities = {0.15, 0.5, 0.1, 0.25};

std::array<float, 4> logits() {
  std::array<float, 4> values{};
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(std::log(kProbabilities[i])) + 3;
  return values;
}

// The frequencies in 20000 samples are within 4.5 standard deviations; tokens with probability 0 are never drawn.
void expect_draws(const SamplerOptions& options, Probabilities expected) {
  constexpr int kDraws = 20000;
  double total = 0;
  for (double p : expected) total += p;
  std::array<int, 4> counts{};
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(sample_token(logits(), options, i))];
  for (size_t token = 0; token < expected.size(); ++token) {
    const double p = expected[token] / total;
    EXPECT_NEAR(counts[token], p * kDraws, 4.5 * std::sqrt(kDraws * p * (1 - p))) << "token " << token;
  }
}

TEST(SamplerTest, PlainDrawsFollowTheLogits) { expect_draws({.seed = 1}, kProbabilities); }

TEST(SamplerTest, TemperatureSharpensAndFlattens) {
  expect_draws({.temperature = 0.5, .seed = 2}, {0.0225, 0.25, 0.01, 0.0625});
  expect_draws({.temperature = 2, .seed = 3}, {std::sqrt(0.15), std::sqrt(0.5), std::sqrt(0.1), std::sqrt(0.25)});
  expect_draws({.temperature = 0, .seed = 4}, {0, 1, 0, 0});
}

TEST(SamplerTest, TopKKeepsTheLikeliest) {
  expect_draws({.top_k = 1, .seed = 5}, {0, 1, 0, 0});
  expect_draws({.top_k = 2, .seed = 6}, {0, 0.5, 0, 0.25});
  expect_draws({.top_k = 9, .seed = 7}, kProbabilities);
}

TEST(SamplerTest, TopPKeepsTheFewestThatHoldIt) {
  expect_draws({.top_p = 0, .seed = 8}, {0, 1, 0, 0});
  expect_draws({.top_p = 0.45, .seed = 9}, {0, 1, 0, 0});
  expect_draws({.top_p = 0.55, .seed = 10}, {0, 0.5, 0, 0.25});
  expect_draws({.top_p = 0.8, .seed = 11}, {0.15, 0.5, 0, 0.25});
  expect_draws({.top_p = 0.95, .seed = 12}, kProbabilities);
}

// Top-p is applied to what remains after top-k and the temperature: 0.5 and 0.25 are 83% of the three likeliest.
TEST(SamplerTest, TheyApplyInOrder) {
  expect_draws({.top_k = 3, .top_p = 0.8, .seed = 13}, {0, 0.5, 0, 0.25});
  expect_draws({.temperature = 0.5, .top_p = 0.7, .seed = 14}, {0, 1, 0, 0});
}

TEST(SamplerTest, ADrawIsAFunctionOfSeedAndPosition) {
  int other_seed = 0, other_position = 0;
  for (int64_t i = 0; i < 100; ++i) {
    const int32_t token = sample_token(logits(), {.seed = 1}, i);
    EXPECT_EQ(sample_token(logits(), {.seed = 1}, i), token);
    other_seed += sample_token(logits(), {.seed = 2}, i) != token;
    other_position += sample_token(logits(), {.seed = 1}, i + 100) != token;
  }
  EXPECT_GT(other_seed, 30);
  EXPECT_GT(other_position, 30);
}

TEST(SamplerTest, NonsenseIsNotSampled) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto values = logits();
    values[2] = bad;
    for (double temperature : {0.0, 1.0}) {
      EXPECT_THROW(sample_token(values, {.temperature = temperature}, 0), Error) << bad;
    }
  }
}

}  // namespace
}  // namespace gradmill::test
