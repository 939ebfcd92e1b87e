// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy/cross_entropy.h"

#include <cmath>

#include "support/op_test.h"

namespace gradmill::test {
namespace {

struct Expected {
  std::vector<float> losses, grads;
};

class CrossEntropyTest : public OpTest {
 protected:
  CrossEntropyTest() {
    scalars().inv_targets = 0.125f;
    scalars().loss_scale = 16;
  }

  // In double, of the values the op sees.
  Expected reference(const TensorView& logits, std::span<const int32_t> targets,
                     std::span<const float> weights = {}) const {
    const std::vector<float> x = download(logits);
    const auto size = static_cast<size_t>(logits.cols());
    const double scale = double(scalars().inv_targets) * scalars().loss_scale;
    Expected expected;
    for (size_t r = 0; r < targets.size(); ++r) {
      const float* row = x.data() + r * size;
      const double max = *std::max_element(row, row + size);
      double sum = 0;
      for (size_t c = 0; c < size; ++c) sum += std::exp(row[c] - max);
      const double weight = weights.empty() ? 1 : double(weights[r]);
      const bool ignored = targets[r] == kIgnoredTarget || weight == 0;
      expected.losses.push_back(ignored ? 0 : static_cast<float>((std::log(sum) + max - row[targets[r]]) * weight));
      for (size_t c = 0; c < size; ++c) {
        const double p = std::exp(row[c] - max) / sum - (static_cast<int32_t>(c) == targets[r]);
        expected.grads.push_back(ignored ? 0 : static_cast<float>(p * scale * weight));
      }
    }
    return expected;
  }

  static std::vector<int32_t> some_targets(int64_t rows, int64_t size) {
    std::vector<int32_t> targets;
    for (int64_t r = 0; r < rows; ++r) {
      targets.push_back(r % 5 == 3 ? kIgnoredTarget : static_cast<int32_t>((r * 7919 + size - 1) % size));
    }
    return targets;
  }

  CrossEntropyArgs make(int64_t rows, int64_t size, float spread = 6) {
    targets_ = some_targets(rows, size);
    return {.logits = upload(random_values(rows * size, 1, spread, dtype()), {rows, size}, dtype()),
            .targets = upload(targets_),
            .losses = tensor({rows}, DType::fp32)};
  }

  // Relative to the largest gradient there can be; in fp32 the exponentials' few ulp show, else only the last rounding.
  void expect_grads(const TensorView& logits, const std::vector<float>& grads, double largest_weight = 1) const {
    const double scale = double(scalars().inv_targets) * scalars().loss_scale * largest_weight;
    const double bound = (dtype() == DType::fp32 ? 4 : 1) * epsilon_of(dtype()) * scale;
    const std::vector<float> actual = download(logits);
    for (size_t i = 0; i < grads.size(); ++i) ASSERT_NEAR(actual[i], grads[i], bound) << "at " << i;
  }

  // Of either sign and 0.
  static std::vector<float> some_weights(int64_t rows) {
    constexpr float kWeights[] = {-1.5f, 0.3f, 0, 2, 1};
    std::vector<float> weights;
    for (int64_t r = 0; r < rows; ++r) weights.push_back(kWeights[r % 5]);
    return weights;
  }

  std::vector<int32_t> targets_;
};

TEST_P(CrossEntropyTest, LossAndGradient) {
  for (auto [rows, size] : {std::pair<int64_t, int64_t>{1, 1}, {6, 3}, {9, 16}, {11, 65}, {23, 1031}}) {
    const CrossEntropyArgs args = make(rows, size);
    const Expected expected = reference(args.logits, targets_);
    cross_entropy(ctx_, args);
    expect_reduction(download(args.losses), expected.losses, DType::fp32, 1, 4, "losses");
    expect_grads(args.logits, expected.grads);
  }
}

// Rows that begin at multiples of 16 bytes, like those of the head for an odd vocabulary. A GPU keeps short rows in the
// registers of 4 to 32 lanes. The memory after a row must not change.
TEST_P(CrossEntropyTest, PaddedRows) {
  for (int64_t size : {1, 3, 8, 64, 65, 128, 129, 255, 257, 500, 513, 1000, 1024, 1025}) {
    for (int64_t rows : {1, 35}) {
      const ArenaScope scope(ctx_.persistent);
      const int64_t stride = (size + 7) / 8 * 8 + 8;
      targets_ = some_targets(rows, size);
      const TensorView around = upload(random_values(rows * stride, 1, 6, dtype()), {rows, stride}, dtype());
      const CrossEntropyArgs args{
          .logits = around.slice_cols(0, size), .targets = upload(targets_), .losses = tensor({rows}, DType::fp32)};
      const TensorView after = around.slice_cols(size, stride);
      const std::vector<float> old = download(after);
      const Expected expected = reference(args.logits, targets_);
      cross_entropy(ctx_, args);
      expect_reduction(download(args.losses), expected.losses, DType::fp32, 1, 4, "losses");
      expect_grads(args.logits, expected.grads);
      expect_same_bits(download(after), old, "memory after a row");
    }
  }
}

// In every form that a GPU has for rows of some length.
TEST_P(CrossEntropyTest, WeightedRows) {
  for (int64_t size : {1, 64, 65, 128, 256, 512, 1024, 1031, 32768, 70001, 120001, 151936, 262144, 930001}) {
    const int64_t rows = size < 2000 ? 23 : size < 200000 ? 4 : 2;
    const ArenaScope scope(ctx_.persistent);
    CrossEntropyArgs args = make(rows, size);
    const std::vector<float> weights = some_weights(rows), logits = download(args.logits);
    args.weights = upload(weights, {rows}, DType::fp32);
    const Expected expected = reference(args.logits, targets_, weights);
    args.write_grad = false;
    cross_entropy(ctx_, args);
    expect_reduction(download(args.losses), expected.losses, DType::fp32, 1 + size / 1000, 4, "losses");
    expect_same_bits(download(args.logits), logits, "logits");
    args.write_grad = true;
    cross_entropy(ctx_, args);
    expect_reduction(download(args.losses), expected.losses, DType::fp32, 1 + size / 1000, 4, "losses");
    expect_grads(args.logits, expected.grads, 2);
  }
}

TEST_P(CrossEntropyTest, AWeightOfOneChangesNoBit) {
  for (int64_t size : {64, 1031, 120001}) {
    const ArenaScope scope(ctx_.persistent);
    const CrossEntropyArgs plain = make(7, size);
    CrossEntropyArgs weighted = make(7, size);
    weighted.weights = upload(std::vector<float>(7, 1.0f), {7}, DType::fp32);
    cross_entropy(ctx_, plain);
    cross_entropy(ctx_, weighted);
    expect_same_bits(download(weighted.losses), download(plain.losses), "losses");
    expect_same_bits(download(weighted.logits), download(plain.logits), "gradient");
  }
}

TEST_P(CrossEntropyTest, RowsOfWeightZeroDoNotEvenReadTheirLogits) {
  for (int64_t size : {19, 64, 40000}) {
    const ArenaScope scope(ctx_.persistent);
    const auto count = static_cast<size_t>(2 * size);
    const TensorView logits = upload(std::vector<float>(count, NAN), {2, size}, dtype());
    const TensorView losses = tensor({2}, DType::fp32), weights = upload(std::vector<float>(2), {2}, DType::fp32);
    cross_entropy(
        ctx_, {.logits = logits, .targets = upload(std::vector<int32_t>{3, 7}), .weights = weights, .losses = losses});
    expect_same_bits(download(losses), std::vector<float>(2), "losses");
    expect_same_bits(download(logits), std::vector<float>(count), "gradient");
  }
}

TEST_P(CrossEntropyTest, NanReachesAllOfAPaddedRowAndNoOther) {
  const TensorView around = upload(random_values(3 * 72, 1, 6, dtype()), {3, 72}, dtype());
  for (int64_t at : {0, 31, 63, 64}) {
    std::vector<float> logits = download(around);
    logits[static_cast<size_t>(72 + at)] = NAN;
    const TensorView padded = upload(logits, {3, 72}, dtype()).slice_cols(0, 65), losses = tensor({3}, DType::fp32);
    cross_entropy(ctx_, {.logits = padded, .targets = upload(std::vector<int32_t>{1, 2, 64}), .losses = losses});
    const std::vector<float> grads = download(padded);
    for (size_t i = 0; i < grads.size(); ++i) ASSERT_EQ(std::isnan(grads[i]), i / 65 == 1) << at << " shows at " << i;
    for (size_t i = 0; i < 3; ++i) ASSERT_EQ(std::isfinite(download(losses)[i]), i != 1) << at;
  }
}

// Rows that a GPU keeps in the shared memory of one, two, four and eight multiprocessors, in 16-bit types and in fp32,
// and one that it reads twice. Odd rows begin at any address.
TEST_P(CrossEntropyTest, LargeVocabularies) {
  for (auto [rows, size] : {std::pair<int64_t, int64_t>{4, 32768},
                            {3, 50257},
                            {3, 70001},
                            {2, 120001},
                            {3, 151936},
                            {2, 262144},
                            {1, 930001}}) {
    const ArenaScope scope(ctx_.persistent);
    const CrossEntropyArgs args = make(rows, size);
    const Expected expected = reference(args.logits, targets_);
    cross_entropy(ctx_, args);
    expect_reduction(download(args.losses), expected.losses, DType::fp32, size / 1000, 2, "losses");
    expect_grads(args.logits, expected.grads);
  }
}

// The parts of a row agree on its largest logit, on its sum, and on which of them writes the target's gradient,
// wherever that is.
TEST_P(CrossEntropyTest, TargetAndLargestLogitInAnyPart) {
  const int64_t rows = 7, size = 131075;
  const float largest = dtype() == DType::fp32 ? 7 : 15;  // with 15, the CPU's long sums would exceed the bound for
                                                          // fp32
  CrossEntropyArgs args = make(rows, size);
  std::vector<float> logits = download(args.logits);
  for (int64_t r = 0; r < rows; ++r) {
    targets_[static_cast<size_t>(r)] = static_cast<int32_t>(r * (size - 1) / (rows - 1));
    logits[static_cast<size_t>(r * size + (r * 5 + 2) % rows * (size - 1) / (rows - 1))] = largest;
  }
  args.logits = upload(logits, {rows, size}, dtype());
  args.targets = upload(targets_);
  const Expected expected = reference(args.logits, targets_);
  cross_entropy(ctx_, args);
  expect_reduction(download(args.losses), expected.losses, DType::fp32, size / 1000, 1, "losses");
  expect_grads(args.logits, expected.grads);
}

TEST_P(CrossEntropyTest, NanInAnyPartReachesAllOfALargeRow) {
  for (int64_t at : {0, 40000, 70000, 120000}) {
    const ArenaScope scope(ctx_.persistent);
    CrossEntropyArgs args = make(1, 120001);
    std::vector<float> logits = download(args.logits);
    logits[static_cast<size_t>(at)] = at % 20000 == 0 ? NAN : INFINITY;
    args.logits = upload(logits, {1, 120001}, dtype());
    cross_entropy(ctx_, args);
    EXPECT_FALSE(std::isfinite(download(args.losses)[0])) << at;
    for (float grad : download(args.logits)) ASSERT_TRUE(std::isnan(grad)) << at;
  }
}

// A logit of minus infinity has probability zero.
TEST_P(CrossEntropyTest, MaskedLogitsWeighNothing) {
  CrossEntropyArgs args = make(1, 333);
  std::vector<float> logits = download(args.logits);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (i % 100 > 10 && static_cast<int32_t>(i) != targets_[0]) logits[i] = -INFINITY;
  }
  args.logits = upload(logits, {1, 333}, dtype());
  const Expected expected = reference(args.logits, targets_);
  cross_entropy(ctx_, args);
  expect_reduction(download(args.losses), expected.losses, DType::fp32, 1, 4, "losses");
  expect_grads(args.logits, expected.grads);
}

// In fp16 the gradients are below the smallest number.
class CrossEntropyWideRange : public CrossEntropyTest {};
TEST_P(CrossEntropyWideRange, GradientsOfSmallProbabilitiesKeepTheirDigits) {
  const CrossEntropyArgs args = make(7, 133, 30);
  const Expected expected = reference(args.logits, targets_);
  cross_entropy(ctx_, args);
  std::vector<float> actual = download(args.logits), others = expected.grads;
  for (size_t r = 0; r < targets_.size(); ++r) {
    if (targets_[r] == kIgnoredTarget) continue;
    const size_t cancels = r * 133 + static_cast<size_t>(targets_[r]);  // p - 1 cancels here
    actual[cancels] = others[cancels] = 0;
  }
  // A difference of 60 is rounded by 2^-19, which is 16 ulp of its exponential.
  expect_within_ulps(actual, others, dtype(), dtype() == DType::fp32 ? 20 : 1, "gradient");
}

TEST_P(CrossEntropyTest, LargeLogitsNeitherOverflowNorVanish) {
  const CrossEntropyArgs args = make(11, 65, 3e4f);
  const Expected expected = reference(args.logits, targets_);
  cross_entropy(ctx_, args);
  expect_reduction(download(args.losses), expected.losses, DType::fp32, 1, 1, "losses");
  expect_grads(args.logits, expected.grads);
}

// Sums that started with 0 as the largest logit would vanish.
TEST_P(CrossEntropyTest, LogitsFarBelowZero) {
  for (const int64_t size : {64, 1024, 9000}) {
    CrossEntropyArgs args = make(5, size);
    std::vector<float> logits = download(args.logits);
    for (float& logit : logits) logit -= 200;
    args.logits = upload(logits, {5, size}, dtype());
    const Expected expected = reference(args.logits, targets_);
    cross_entropy(ctx_, args);
    expect_reduction(download(args.losses), expected.losses, DType::fp32, 200, 4, "losses");
    expect_grads(args.logits, expected.grads);
  }
}

TEST_P(CrossEntropyTest, IgnoredRowsDoNotEvenReadTheirLogits) {
  const TensorView logits = upload(std::vector<float>(2 * 19, NAN), {2, 19}, dtype());
  const TensorView losses = tensor({2}, DType::fp32);
  cross_entropy(ctx_, {.logits = logits, .targets = upload(std::vector<int32_t>(2, kIgnoredTarget)), .losses = losses});
  expect_same_bits(download(losses), std::vector<float>(2), "losses");
  expect_same_bits(download(logits), std::vector<float>(2 * 19), "gradient");
}

TEST_P(CrossEntropyTest, WithoutGradientTheLogitsStay) {
  CrossEntropyArgs args = make(11, 65);
  const std::vector<float> logits = download(args.logits);
  args.write_grad = false;
  cross_entropy(ctx_, args);
  expect_same_bits(download(args.logits), logits, "logits");
  const std::vector<float> losses = download(args.losses);
  args.write_grad = true;
  cross_entropy(ctx_, args);
  expect_same_bits(download(args.losses), losses, "losses");
}

// They must show in the loss wherever they are; otherwise a broken step would count as a good one.
TEST_P(CrossEntropyTest, NanAndInfinityReachTheLoss) {
  for (float bad : {NAN, INFINITY}) {
    for (int64_t at : {0, 17, 33, 36}) {
      CrossEntropyArgs args = make(1, 37);
      std::vector<float> logits = download(args.logits);
      logits[static_cast<size_t>(at)] = bad;
      args.logits = upload(logits, {1, 37}, dtype());
      cross_entropy(ctx_, args);
      EXPECT_FALSE(std::isfinite(download(args.losses)[0])) << bad << " at " << at;
      for (float grad : download(args.logits)) EXPECT_TRUE(std::isnan(grad)) << bad << " at " << at;
    }
  }
}

TEST_P(CrossEntropyTest, BitsDoNotDependOnThreads) {
  for (auto [rows, size] : {std::pair<int64_t, int64_t>{67, 1031}, {5, 120001}}) {
    std::vector<float> grads, losses;
    for (int threads : {1, 2, 3, 7}) {
      const ArenaScope scope(ctx_.persistent);
      use_threads(threads);
      const CrossEntropyArgs args = make(rows, size);
      cross_entropy(ctx_, args);
      if (threads == 1) {
        grads = download(args.logits);
        losses = download(args.losses);
      }
      expect_same_bits(download(args.logits), grads, "gradient");
      expect_same_bits(download(args.losses), losses, "losses");
    }
  }
}

TEST_P(CrossEntropyTest, OnPaperNothingRuns) {
  ExecContext paper;
  paper.dry = true;
  const TensorView targets(nullptr, DType::int32, {4}), losses(nullptr, DType::fp32, {4});
  cross_entropy(paper, {.logits = TensorView(nullptr, dtype(), {4, 9}), .targets = targets, .losses = losses});
  add_loss_sum(paper, losses);
  EXPECT_EQ(paper.scratch.high_water(), 0u);
}

class CrossEntropyFp32 : public CrossEntropyTest {};

TEST_P(CrossEntropyFp32, CentralDifferences) {
  scalars().loss_scale = 1;
  scalars().inv_targets = 1;
  for (bool weighted : {false, true}) {
    CrossEntropyArgs args = make(7, 19, 2);
    if (weighted) args.weights = upload(some_weights(7), {7}, DType::fp32);
    CrossEntropyArgs with_grad = args;
    args.write_grad = false;
    with_grad.logits = upload(download(args.logits), args.logits.shape, DType::fp32);
    cross_entropy(ctx_, with_grad);
    const GradientCheck check{
        .forward = [&] { cross_entropy(ctx_, args); }, .output = args.losses, .doutput = std::vector<float>(7, 1.0f)};
    expect_gradient(check, args.logits, download(with_grad.logits), "logits");
  }
}

// In row order on the CPU; a GPU has its own order.
TEST_P(CrossEntropyFp32, LossSumIsDoubleAndInRowOrder) {
  const std::vector<float> losses = random_values(3001, 1, 9);
  double expected = scalars().loss_sum = 0.1;
  for (float loss : losses) expected += double(loss);
  add_loss_sum(ctx_, upload(std::span(losses).first(400), {400}, DType::fp32));
  add_loss_sum(ctx_, upload(std::span(losses).subspan(400), {2601}, DType::fp32));
  if (on_gpu())
    EXPECT_NEAR(scalars().loss_sum, expected, 1e-9);
  else
    EXPECT_EQ(scalars().loss_sum, expected);
}

INSTANTIATE_TEST_SUITE_P(Ops, CrossEntropyFp32, testing::ValuesIn(fp32_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, CrossEntropyWideRange, testing::ValuesIn(cases_without(DType::fp16)), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, CrossEntropyTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
