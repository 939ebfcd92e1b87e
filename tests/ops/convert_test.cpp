// SPDX-License-Identifier: Apache-2.0
#include "ops/convert.h"

#include <array>
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

// NaNs may have different payloads in the vector and the scalar conversion. All other values must agree in every bit.
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
  for (int64_t i = 0; i < from.numel(); ++i) {
    if (dtype() == DType::fp32) {
      from.ptr<float>()[i] = std::bit_cast<float>(static_cast<uint32_t>(i) << 16);
    } else {
      static_cast<uint16_t*>(from.data)[i] = static_cast<uint16_t>(i);
    }
  }
  convert(ctx_, {.from = from, .to = to});
  expect_same(download(to), download(from));
}

TEST_P(ConvertTest, StridedOnBothSides) {
  const TensorView wide = upload(random_values(9 * 56, 1, 1, dtype()), {9, 56}, DType::fp32);
  // Unaligned, then aligned to 16 bytes on both sides.
  for (auto [begin, to, size] : {std::array<int64_t, 3>{3, 20, 33}, {8, 24, 40}}) {
    const TensorView from = wide.slice_cols(begin, begin + size), around = filled({9, 72}, dtype(), 7);
    convert(ctx_, {.from = from, .to = around.slice_cols(to, to + size)});
    expect_same(download(around.slice_cols(to, to + size)), download(from));
    expect_same(download(around.slice_cols(0, to)), std::vector<float>(static_cast<size_t>(9 * to), 7));
    const int64_t right = 72 - to - size;
    expect_same(download(around.slice_cols(to + size, 72)), std::vector<float>(static_cast<size_t>(9 * right), 7));
  }
}

TEST_P(ConvertTest, BetaAddsBothWays) {
  for (const Shape& shape : {Shape{5, 37}, Shape{2, 40}, Shape{5, 40}}) {
    const std::vector<float> values = random_values(shape.numel(), 1, 1, dtype());
    const std::vector<float> old = random_values(shape.numel(), 2, 1, dtype());
    std::vector<float> expected = values;
    for (size_t i = 0; i < values.size(); ++i) expected[i] += 0.5f * old[i];
    const TensorView narrow = upload(old, shape, dtype()), wide = upload(old, shape, DType::fp32);
    convert(ctx_, {.from = upload(values, shape, DType::fp32), .to = narrow, .beta = 0.5f});
    expect_within_ulps(download(narrow), expected, dtype(), 1, "narrow");
    convert(ctx_, {.from = upload(values, shape, dtype()), .to = wide, .beta = 0.5f});
    expect_within_ulps(download(wide), expected, DType::fp32, 1, "wide");
  }
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
