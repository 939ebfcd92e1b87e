// SPDX-License-Identifier: Apache-2.0
#include "ops/convert.h"

#include <cmath>

#include "support/op_test.h"

namespace gradmill::test {
namespace {

class ConvertTest : public OpTest {
 protected:
  TensorView filled(const Shape& shape, DType type, float value) {
    return upload(std::vector<float>(static_cast<size_t>(shape.numel()), value), shape, type);
  }
};

// NaNs may differ in payload between the vector and the scalar conversion, everything else in no bit.
void expect_same(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(actual[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i])) << i << ": " << expected[i];
    }
  }
}

// Every exponent and upper mantissa, with lower halves around the ties.
TEST_P(ConvertTest, NarrowsLikeTheScalarConversion) {
  for (uint32_t low : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
    std::vector<float> values;
    for (uint32_t high = 0; high < 0x10000; ++high) values.push_back(std::bit_cast<float>(high << 16 | low));
    const ArenaScope scope(ctx_.persistent);
    const TensorView to = tensor({1, 0x10000}, dtype());
    convert(ctx_, {.from = upload(values, {1, 0x10000}, DType::fp32), .to = to});
    expect_same(download(to), download(upload(values, {1, 0x10000}, dtype())));
  }
}

TEST_P(ConvertTest, WidensEveryValue) {
  const TensorView from = tensor({257, 255}, dtype()), to = tensor({257, 255}, DType::fp32);
  if (dtype() != DType::fp32) {
    for (int64_t i = 0; i < from.numel(); ++i) static_cast<uint16_t*>(from.data)[i] = static_cast<uint16_t>(i);
  }
  convert(ctx_, {.from = from, .to = to});
  expect_same(download(to), download(from));
}

TEST_P(ConvertTest, StridedOnBothSides) {
  const TensorView from = upload(random_values(9 * 50, 1, 1, dtype()), {9, 50}, DType::fp32).slice_cols(3, 36);
  const TensorView around = filled({9, 70}, dtype(), 7);
  convert(ctx_, {.from = from, .to = around.slice_cols(20, 53)});
  expect_same(download(around.slice_cols(20, 53)), download(from));
  expect_same(download(around.slice_cols(0, 20)), std::vector<float>(9 * 20, 7));
  expect_same(download(around.slice_cols(53, 70)), std::vector<float>(9 * 17, 7));
}

TEST_P(ConvertTest, BetaAddsBothWays) {
  const std::vector<float> values = random_values(5 * 37, 1, 1, dtype()), old = random_values(5 * 37, 2, 1, dtype());
  std::vector<float> expected = values;
  for (size_t i = 0; i < values.size(); ++i) expected[i] += 0.5f * old[i];
  const TensorView narrow = upload(old, {5, 37}, dtype()), wide = upload(old, {5, 37}, DType::fp32);
  convert(ctx_, {.from = upload(values, {5, 37}, DType::fp32), .to = narrow, .beta = 0.5f});
  expect_within_ulps(download(narrow), expected, dtype(), 1, "narrow");
  convert(ctx_, {.from = upload(values, {5, 37}, dtype()), .to = wide, .beta = 0.5f});
  expect_within_ulps(download(wide), expected, DType::fp32, 1, "wide");
}

TEST_P(ConvertTest, BitsDoNotDependOnThreads) {
  const TensorView from = upload(random_values(67 * 1031, 1), {67, 1031}, DType::fp32);
  for (int threads : {1, 2, 3, 7}) {
    use_threads(threads);
    const TensorView to = tensor({67, 1031}, dtype());
    convert(ctx_, {.from = from, .to = to});
    expect_same(download(to), download(upload(download(from), {67, 1031}, dtype())));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ConvertTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
