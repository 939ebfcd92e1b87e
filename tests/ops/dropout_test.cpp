// SPDX-License-Identifier: Apache-2.0
#include "ops/dropout.h"

#include "core/rng.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kRows = 41, kCols = 1093;          // more than one block of columns, and several tasks
constexpr int64_t kWideRows = 37, kWideCols = 1056;  // whole vectors

class DropoutTest : public OpTest {
 protected:
  DropoutTest() {
    scalars().dropout = 0.3f;
    scalars().seed = 0x123456789abcdef0;
    scalars().step = 17;
    scalars().token_base = 1000;
    values_ = random_values(kRows * kCols, 1, 2, dtype());
    for (float& value : values_) value = value == 0 ? 1 : value;  // so that only dropped elements are 0
    x_ = upload(values_, {kRows, kCols}, dtype());
    wide_ = upload(random_values(kWideRows * kWideCols, 2, 2, dtype()), {kWideRows, kWideCols}, dtype());
  }

  std::vector<float> run(const TensorView& x, uint32_t site = 5) {
    const TensorView y = tensor(x.shape, dtype());
    dropout(ctx_, {.x = x, .y = y, .site = site});
    return download(y);
  }

  std::vector<float> values_;
  TensorView x_, wide_;
};

TEST_P(DropoutTest, FollowsTheScalarGenerator) {
  // Whole rows, then aligned and unaligned columns; rows that a GPU's blocks divide into 64, 32 and 16 vectors, and
  // fewer rows.
  const TensorView few = wide_.slice_rows(0, 13);
  for (const TensorView& x :
       {x_, wide_, wide_.slice_cols(16, 1048), wide_.slice_cols(3, 1048), wide_.slice_cols(0, 512),
        wide_.slice_cols(8, 776), wide_.slice_cols(0, 384), few.slice_cols(0, 384)}) {
    const ArenaScope scope(ctx_.persistent);
    std::vector<float> expected = download(x);
    for (int64_t r = 0; r < x.rows(); ++r) {
      for (int64_t c = 0; c < x.cols(); ++c) {
        const auto token = static_cast<uint32_t>(1000 + r), block = static_cast<uint32_t>(c / 8);
        const RandomBlock words = random_words(scalars().seed, 5, 17, token, block);
        const bool kept = keeps(words, static_cast<size_t>(c % 8), drop_threshold(0.3f));
        float& value = expected[static_cast<size_t>(r * x.cols() + c)];
        value = kept ? value * drop_scale(drop_threshold(0.3f)) : 0.0f;
      }
    }
    expect_same_bits(run(x), download(upload(expected, x.shape, dtype())), "y");
  }
}

TEST_P(DropoutTest, DropsTheGivenShare) {
  for (float p : {0.1f, 0.5f, 0.9f}) {
    scalars().dropout = p;
    const std::vector<float> y = run(x_);
    const double share = double(std::count(y.begin(), y.end(), 0.0f)) / double(y.size());
    EXPECT_NEAR(share, p, 5 * std::sqrt(p * (1 - p) / double(y.size())));
  }
}

TEST_P(DropoutTest, AddsWithItsOwnProbability) {
  for (const TensorView& x : {x_, wide_}) {
    for (float p : {0.0f, 0.3f}) {
      scalars().dropout = p;
      const std::vector<float> dropped = run(x), old = random_values(x.numel(), 3, 2, dtype());
      scalars().dropout = 0.9f;
      const TensorView y = upload(old, x.shape, dtype());
      dropout(ctx_, {.x = x, .y = y, .site = 5, .probability = p, .add = true});
      std::vector<float> expected(old.size());
      const float scale = drop_scale(drop_threshold(p));
      const std::vector<float> values = download(x);
      for (size_t i = 0; i < old.size(); ++i) expected[i] = old[i] + (dropped[i] == 0 ? 0 : values[i] * scale);
      expect_within_ulps(download(y), expected, dtype(), 2, "y");
    }
  }
}

TEST_P(DropoutTest, WithoutDropoutItCopies) {
  scalars().dropout = 0;
  expect_same_bits(run(x_), values_, "y");
  dropout(ctx_, {.x = x_, .y = x_, .site = 5});
  expect_same_bits(download(x_), values_, "x in place");
}

TEST_P(DropoutTest, InPlace) {
  const std::vector<float> expected = run(x_);
  dropout(ctx_, {.x = x_, .y = x_, .site = 5});
  expect_same_bits(download(x_), expected, "x");
}

TEST_P(DropoutTest, TheSplitIntoMicroBatchesDoesNotMatter) {
  const std::vector<float> whole = run(x_);
  std::vector<float> parts = run(x_.slice_rows(0, 13));
  scalars().token_base += 13;
  const std::vector<float> rest = run(x_.slice_rows(13, kRows));
  parts.insert(parts.end(), rest.begin(), rest.end());
  expect_same_bits(parts, whole, "y");
}

// Rows picked from a batch keep the masks that they have in it.
TEST_P(DropoutTest, RowsOfOtherTokens) {
  const std::vector<float> whole = run(x_);
  const std::vector<int32_t> tokens = {0, 7, 31};
  for (int32_t first : {0, 1}) {
    const TensorView y = tensor({3, kCols}, dtype());
    std::vector<float> picked, expected;
    for (int32_t token : tokens) {
      const auto begin = static_cast<int64_t>(token + first) * kCols;
      picked.insert(picked.end(), values_.begin() + begin, values_.begin() + begin + kCols);
      expected.insert(expected.end(), whole.begin() + begin, whole.begin() + begin + kCols);
    }
    std::vector<int32_t> rows = tokens;
    for (int32_t& row : rows) row += first;
    dropout(ctx_, {.x = upload(picked, y.shape, dtype()), .y = y, .site = 5, .tokens = upload(rows)});
    expect_same_bits(download(y), expected, "y");
  }
}

TEST_P(DropoutTest, SiteStepAndSeedChangeTheMask) {
  const std::vector<float> base = run(x_);
  EXPECT_NE(run(x_, 6), base);
  ++scalars().step;
  EXPECT_NE(run(x_), base);
  --scalars().step;
  ++scalars().seed;
  EXPECT_NE(run(x_), base);
}

TEST_P(DropoutTest, BitsDoNotDependOnThreads) {
  const std::vector<float> expected = run(x_);
  for (int threads : {1, 3, 7}) {
    use_threads(threads);
    expect_same_bits(run(x_), expected, "y");
  }
}

TEST_P(DropoutTest, OnPaperNothingRuns) {
  ExecContext paper;
  paper.dry = true;
  const TensorView x(nullptr, dtype(), {4, 6});
  dropout(paper, {.x = x, .y = x, .site = 5});
  EXPECT_EQ(paper.scratch.high_water(), 0u);
}

class DropoutGradients : public DropoutTest {};
TEST_P(DropoutGradients, TheGradientIsTheSameOp) {
  const TensorView x = upload(random_values(5 * 37, 2), {5, 37}, DType::fp32);
  const TensorView y = tensor({5, 37}, DType::fp32), dx = tensor({5, 37}, DType::fp32);
  const TensorView dy = upload(random_values(5 * 37, 3), {5, 37}, DType::fp32);
  dropout(ctx_, {.x = dy, .y = dx, .site = 5});
  const GradientCheck check{
      .forward = [&] { dropout(ctx_, {.x = x, .y = y, .site = 5}); }, .output = y, .doutput = download(dy)};
  expect_gradient(check, x, download(dx), "x");
}

INSTANTIATE_TEST_SUITE_P(Ops, DropoutGradients, testing::ValuesIn(fp32_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, DropoutTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
