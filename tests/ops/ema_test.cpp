// SPDX-License-Identifier: Apache-2.0
#include "ops/ema.h"

#include "support/op_test.h"

namespace gradmill::test {
namespace {

class EmaTest : public OpTest {};

// Whole vectors, a ragged end, less than a vector, and more than one task or block.
constexpr int64_t kSizes[] = {1, 3, 64, 1027, 70001};

TEST_P(EmaTest, AveragesAsTheCpuDoes) {
  for (int64_t size : kSizes) {
    const std::vector<float> average = random_values(size, 1), weights = random_values(size, 2);
    const EmaArgs args{.average = upload(average, {size}, DType::fp32),
                       .weights = upload(weights, {size}, DType::fp32),
                       .decay = 0.9f};
    EmaArgs expected = args;
    expected.average = upload(average, {size}, DType::fp32);
    ema_update(ctx_, args);
    ema_update(reference_, expected);
    expect_same_bits(download(args.average), download(expected.average), "average");
    for (size_t i = 0; i < average.size(); ++i) {
      ASSERT_NEAR(args.average.ptr<float>()[i], 0.9 * average[i] + 0.1 * weights[i], 2e-7);
    }
  }
}

TEST_P(EmaTest, AStepThatIsNotFiniteLeavesTheAverage) {
  const std::vector<float> average = random_values(77, 1);
  const TensorView view = upload(average, {77}, DType::fp32);
  scalars().finite = 0;
  ema_update(ctx_, {.average = view, .weights = upload(random_values(77, 2), {77}, DType::fp32)});
  expect_same_bits(download(view), average, "average");
}

// Also if a buffer begins between two vectors.
TEST_P(EmaTest, Exchanges) {
  for (int64_t size : kSizes) {
    for (int64_t begin : {int64_t{0}, int64_t{1}}) {
      const std::vector<float> left = random_values(size + 1, 1), right = random_values(size + 1, 2);
      const TensorView a = upload(left, {size + 1}, DType::fp32).slice_rows(begin, begin + size);
      const TensorView b = upload(right, {size + 1}, DType::fp32).slice_rows(begin, begin + size);
      exchange(ctx_, a, b);
      const auto from = static_cast<size_t>(begin), count = static_cast<size_t>(size);
      expect_same_bits(download(a), std::span(right).subspan(from, count), "a");
      expect_same_bits(download(b), std::span(left).subspan(from, count), "b");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, EmaTest, testing::ValuesIn(fp32_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
