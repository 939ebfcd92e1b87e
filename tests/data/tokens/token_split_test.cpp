// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/token_split.h"

#include <limits>
#include <numeric>

#include "support/errors.h"

namespace gradmill::test {
namespace {

std::vector<int32_t> counting(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(TokenSplit, ValidationIsTheTail) {
  const TokenSplit split = split_tokens(counting(1000), 0.1, 16);
  EXPECT_EQ(split.train, counting(900));
  ASSERT_EQ(split.validation.size(), 100u);
  EXPECT_EQ(split.validation.front(), 900);
  EXPECT_EQ(split.validation.back(), 999);
}

TEST(TokenSplit, CutsShakespeareWhereNanoGptDoes) {
  const TokenSplit split = split_tokens(counting(1115394), 0.1, 256);
  EXPECT_EQ(split.train.size(), 1003854u);
  EXPECT_EQ(split.validation.size(), 111540u);
}

// The number in the message is the smallest that works.
TEST(TokenSplit, SaysHowManyCharactersAreNeeded) {
  for (double fraction : {0.1, 0.5, 0.9, 1.0 / 3, 0.003, 0.999}) {
    for (int64_t context : {1, 8, 255, 1024}) {
      int64_t needed = 0;
      try {
        split_tokens({}, fraction, context);
      } catch (const Error& error) {
        const std::string message = error.what();
        needed = std::stoll(message.substr(message.find(" need ") + 6));
      }
      SCOPED_TRACE(fmt::format("fraction {} context {} needed {}", fraction, context, needed));
      ASSERT_GT(needed, 2 * context);
      EXPECT_NO_THROW(split_tokens(counting(needed), fraction, context));
      expect_error([&] { split_tokens(counting(needed - 1), fraction, context); }, ExitCode::data,
                   {fmt::format("has {} characters", needed - 1), fmt::format("need {};", needed), "shorter context"});
    }
  }
}

TEST(TokenSplit, RefusesBadSettings) {
  for (double fraction : {0.0, 1.0, -0.5, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    expect_error([&] { split_tokens(counting(100), fraction, 4); }, ExitCode::usage, {"fraction", "between 0 and 1"});
  }
  for (int64_t context : {0, -3}) {
    expect_error([&] { split_tokens(counting(100), 0.1, context); }, ExitCode::usage, {"context"});
  }
}

TEST(TokenSplit, ExtremeSettingsStillAnswer) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  expect_error([] { split_tokens({}, 0.1, kHuge); }, ExitCode::data, {"need"});
  expect_error([] { split_tokens({}, 1e-300, 8); }, ExitCode::data, {"need"});
  expect_error([] { split_tokens({}, 1 - 1e-16, 8); }, ExitCode::data, {"need"});
}

}  // namespace
}  // namespace gradmill::test
