// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_grad.h"

#include "support/op_test.h"

namespace gradmill::test {
namespace {

class BiasGradTest : public OpTest {
 protected:
  // Computed in double precision from the rounded inputs of the op.
  static std::vector<float> column_sums(const TensorView& dy) {
    const std::vector<float> values = download(dy);
    std::vector<double> sums(static_cast<size_t>(dy.cols()));
    for (size_t i = 0; i < values.size(); ++i) sums[i % sums.size()] += values[i];
    return {sums.begin(), sums.end()};
  }
};

TEST_P(BiasGradTest, ColumnSums) {
  for (auto [rows, cols] :
       {std::pair<int64_t, int64_t>{1, 1}, {3, 45}, {37, 17}, {67, 259}, {1100, 33}, {40, 1024}, {3000, 264}}) {
    const ArenaScope scope(ctx_.persistent);
    const TensorView dy = upload(random_values(rows * cols, 1, 1, dtype()), {rows, cols}, dtype());
    const TensorView dbias = tensor({cols}, DType::fp32);
    bias_grad(ctx_, {.dy = dy, .dbias = dbias});
    expect_reduction(download(dbias), column_sums(dy), DType::fp32, rows, 1, "dbias");
  }
}

TEST_P(BiasGradTest, StridedRows) {
  const TensorView packed = upload(random_values(37 * 64, 1, 1, dtype()), {37, 64}, dtype());
  for (auto [begin, end] : {std::pair<int64_t, int64_t>{20, 41}, {16, 56}}) {
    const TensorView dy = packed.slice_cols(begin, end);
    const TensorView dbias = tensor({dy.cols()}, DType::fp32);
    bias_grad(ctx_, {.dy = dy, .dbias = dbias});
    expect_reduction(download(dbias), column_sums(dy), DType::fp32, 37, 1, "dbias");
  }
}

TEST_P(BiasGradTest, BetaAddsToTheOldGradient) {
  const TensorView dy = upload(random_values(37 * 45, 1, 1, dtype()), {37, 45}, dtype());
  const TensorView fresh = tensor({45}, DType::fp32);
  bias_grad(ctx_, {.dy = dy, .dbias = fresh});
  const std::vector<float> old = random_values(45, 2);
  std::vector<float> expected = download(fresh);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += old[i];
  const TensorView dbias = upload(old, {45}, DType::fp32);
  bias_grad(ctx_, {.dy = dy, .dbias = dbias, .beta = 1});
  expect_same_bits(download(dbias), expected, "dbias");
}

TEST_P(BiasGradTest, BitsDoNotDependOnThreads) {
  const TensorView dy = upload(random_values(1100 * 45, 1, 1, dtype()), {1100, 45}, dtype());
  std::vector<float> first;
  for (int threads : {1, 2, 3, 7}) {
    use_threads(threads);
    const TensorView dbias = tensor({45}, DType::fp32);
    bias_grad(ctx_, {.dy = dy, .dbias = dbias});
    if (threads == 1) first = download(dbias);
    expect_same_bits(download(dbias), first, "dbias");
  }
}

TEST_P(BiasGradTest, OnPaperScratchIsAsInTheRun) {
  const TensorView dy = upload(random_values(1100 * 45, 1, 1, dtype()), {1100, 45}, dtype());
  bias_grad(ctx_, {.dy = dy, .dbias = tensor({45}, DType::fp32)});
  ExecContext paper;
  paper.device = ctx_.device;
  paper.dry = true;
  bias_grad(paper, {.dy = TensorView(nullptr, dtype(), {1100, 45}), .dbias = TensorView(nullptr, DType::fp32, {45})});
  EXPECT_EQ(paper.scratch.high_water(), ctx_.scratch.high_water());
}

INSTANTIATE_TEST_SUITE_P(Ops, BiasGradTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
