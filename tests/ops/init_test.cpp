// SPDX-License-Identifier: Apache-2.0
#include "ops/init.h"

#include <cmath>

#include "core/rng.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

// Parts of a block of random words, of a pair, and of what is computed at once; and more than one task.
constexpr int64_t kSizes[] = {1, 2, 3, 4, 6, 1023, 1024, 1027, 70001};

// The value of one element, as core/rng.h makes it.
float expected_value(const InitArgs& args, int64_t i) {
  const RandomBlock words = philox(args.seed, {static_cast<uint32_t>(i / 4), args.param, 0, RngSite::kInit});
  const auto place = static_cast<size_t>(i % 4);
  const float part = args.uniform ? 2 * to_uniform(words[place]) - 1
                                  : to_normal(words[place / 2 * 2], words[place / 2 * 2 + 1])[place % 2];
  return args.mean + args.std * part;
}

class InitTest : public OpTest {
 protected:
  void expect_values(InitArgs args, int64_t size) {
    // What lies behind the tensor must stay.
    const TensorView whole = upload(std::vector<float>(static_cast<size_t>(size) + 4, 9), {size + 4}, dtype());
    args.to = whole.slice_rows(0, size);
    init_values(ctx_, args);
    std::vector<float> expected(static_cast<size_t>(size) + 4, 9);
    for (int64_t i = 0; i < size; ++i) expected[static_cast<size_t>(i)] = expected_value(args, i);
    const std::vector<float> rounded = download(upload(expected, {size + 4}, dtype())), values = download(whole);
    if (!on_gpu()) return expect_same_bits(values, rounded, "values");
    // Its logarithm and cosine are others.
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], rounded[i], std::abs(rounded[i]) * epsilon_of(dtype()) + 1e-6f) << i;
    }
  }
};

TEST_P(InitTest, EveryElementIsAFunctionOfItsPlace) {
  for (const int64_t size : kSizes) {
    expect_values({.to = {}, .mean = 0, .std = 0.02f, .seed = 0x123456789, .param = 7}, size);
    expect_values({.to = {}, .mean = 1, .std = 0.5f, .uniform = true, .seed = 3, .param = 1}, size);
    expect_values({.to = {}, .mean = 1, .std = 0, .seed = 3, .param = 1}, size);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, InitTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
