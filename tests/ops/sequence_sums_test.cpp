// SPDX-License-Identifier: Apache-2.0
#include "ops/sequence_sums.h"

#include "support/op_test.h"

namespace gradmill::test {
namespace {

class SequenceSumsTest : public OpTest {
 protected:
  std::vector<float> sums_of(std::span<const float> values, const std::vector<int32_t>& offsets) {
    const TensorView sums = tensor({std::ssize(offsets) - 1}, DType::fp32);
    sequence_sums(ctx_,
                  {.values = upload(values, {std::ssize(values)}, DType::fp32), .cu = upload(offsets), .sums = sums});
    return download(sums);
  }
};

// Empty sequences in the middle and at the end, and padding that no sum sees.
TEST_P(SequenceSumsTest, OneSumASequence) {
  const std::vector<int32_t> offsets = {0, 5, 5, 6, 4000, 4133, 4133};
  std::vector<float> values = random_values(4200, 1, 9);
  for (size_t i = 4133; i < values.size(); ++i) values[i] = NAN;
  std::vector<float> expected;
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    double sum = 0;
    for (int32_t row = offsets[s]; row < offsets[s + 1]; ++row) sum += double(values[static_cast<size_t>(row)]);
    expected.push_back(static_cast<float>(sum));
  }
  expect_within_ulps(sums_of(values, offsets), expected, DType::fp32, on_gpu() ? 1 : 0, "sums");
}

TEST_P(SequenceSumsTest, ASumDoesNotDependOnItsPlace) {
  const std::vector<float> values = random_values(700, 2);
  const std::vector<float> alone = sums_of(values, {0, 700});
  std::vector<float> later(777);
  later.insert(later.end(), values.begin(), values.end());
  const std::vector<float> sums = sums_of(later, {0, 770, 777, 1477});
  expect_same_bits(std::span(sums).last(1), alone, "sum");
}

TEST_P(SequenceSumsTest, OnPaperNothingRuns) {
  ExecContext paper;
  paper.dry = true;
  sequence_sums(paper, {.values = TensorView(nullptr, DType::fp32, {9}),
                        .cu = TensorView(nullptr, DType::int32, {3}),
                        .sums = TensorView(nullptr, DType::fp32, {2})});
  EXPECT_EQ(paper.scratch.high_water(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Ops, SequenceSumsTest, testing::ValuesIn(fp32_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
