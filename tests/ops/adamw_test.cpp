// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw.h"

#include <cmath>
#include <limits>

#include "support/op_test.h"

namespace gradmill::test {
namespace {

// Three parameters, with padding between them and at the end. The second one crosses the border of a task.
constexpr int64_t kTotal = 40960;
const std::vector<Segment> kSegments = {{.begin = 0, .size = 1000, .group = 1},
                                        {.begin = 1024, .size = 20003, .group = 0},
                                        {.begin = 21248, .size = 19456, .group = 2}};
const std::vector<ParamGroup> kGroups = {{.lr_scale = 1, .weight_decay = 0.1f},
                                         {.lr_scale = 0.5f, .weight_decay = 0},
                                         {.lr_scale = 2, .weight_decay = 0.01f}};

// The group of each block of the flat space.
std::vector<int8_t> groups_of_blocks() {
  std::vector<int8_t> groups(kTotal / kSegmentPadding);
  for (const Segment& segment : kSegments) {
    const int64_t blocks = (segment.size + kSegmentPadding - 1) / kSegmentPadding;
    std::fill_n(groups.begin() + segment.begin / kSegmentPadding, blocks, static_cast<int8_t>(segment.group));
  }
  return groups;
}

// PyTorch's AdamW in double.
struct Reference {
  std::vector<double> w, m, v;

  void step(const std::vector<float>& grads, const StepScalars& s, double factor, int t) {
    for (const Segment& segment : kSegments) {
      const ParamGroup& group = kGroups[static_cast<size_t>(segment.group)];
      const double lr = double(s.lr) * group.lr_scale;
      for (auto i = static_cast<size_t>(segment.begin); i < static_cast<size_t>(segment.begin + segment.size); ++i) {
        const double g = grads[i] * factor;
        w[i] *= 1 - lr * group.weight_decay;
        m[i] = s.beta1 * m[i] + (1 - double(s.beta1)) * g;
        v[i] = s.beta2 * v[i] + (1 - double(s.beta2)) * g * g;
        const double denominator = std::sqrt(v[i]) / std::sqrt(1 - std::pow(double(s.beta2), t)) + s.eps;
        w[i] -= lr / (1 - std::pow(double(s.beta1), t)) * m[i] / denominator;
      }
    }
  }
};

class AdamWTest : public OpTest {
 protected:
  AdamWTest() {
    scalars().lr = 1e-2f;
    scalars().beta2 = 0.95f;
    scalars().clip = 1;
    scalars().loss_scale = 4;
    std::copy(kGroups.begin(), kGroups.end(), scalars().groups);
  }

  AdamWArgs make() {
    const std::vector<float> zero(kTotal);
    const TensorView compute = dtype() == DType::fp32 ? TensorView{} : tensor({kTotal}, dtype());
    const std::vector<int8_t> groups = groups_of_blocks();
    const TensorView block_groups = tensor({static_cast<int64_t>(groups.size())}, DType::int8);
    std::copy(groups.begin(), groups.end(), block_groups.ptr<int8_t>());
    return {.master = upload(without_padding(random_values(kTotal, 1)), {kTotal}, DType::fp32),
            .compute = compute,
            .grads = upload(gradient(0), {kTotal}, DType::fp32),
            .m = upload(zero, {kTotal}, DType::fp32),
            .v = upload(zero, {kTotal}, DType::fp32),
            .block_groups = block_groups,
            .begin = 0,
            .end = kTotal};
  }

  // Sets the padding to zero, as the trainer keeps it.
  static std::vector<float> without_padding(const std::vector<float>& values) {
    std::vector<float> kept(kTotal);
    for (const Segment& segment : kSegments) {
      std::copy_n(values.begin() + segment.begin, segment.size, kept.begin() + segment.begin);
    }
    return kept;
  }
  static std::vector<float> gradient(uint32_t step) { return without_padding(random_values(kTotal, 100 + step, 3)); }

  static void set(const TensorView& view, const std::vector<float>& values) {
    std::copy(values.begin(), values.end(), view.ptr<float>());
  }

  static std::vector<float> state(const AdamWArgs& args) {
    std::vector<float> all;
    for (const TensorView* view : {&args.master, &args.m, &args.v, &args.compute}) {
      if (!view->defined()) continue;
      const std::vector<float> values = download(*view);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  // Three steps, with [0, kTotal) split at the given borders.
  std::vector<float> run(const std::vector<int64_t>& borders) {
    scalars().updates = 0;
    AdamWArgs args = make();
    for (uint32_t step = 0; step < 3; ++step) {
      set(args.grads, gradient(step));
      prepare_update(ctx_, args.grads);
      for (size_t i = 0; i + 1 < borders.size(); ++i) {
        args.begin = borders[i];
        args.end = borders[i + 1];
        adamw(ctx_, args);
      }
    }
    return state(args);
  }
};

TEST_P(AdamWTest, FollowsPyTorchInDouble) {
  const AdamWArgs args = make();
  const std::vector<float> start = download(args.master);
  Reference reference{{start.begin(), start.end()}, std::vector<double>(kTotal), std::vector<double>(kTotal)};
  for (int t = 1; t <= 5; ++t) {
    const std::vector<float> grads = gradient(static_cast<uint32_t>(t));
    set(args.grads, grads);
    prepare_update(ctx_, args.grads);
    adamw(ctx_, args);
    double squares = 0;
    for (float g : grads) squares += double(g) * g;
    const double norm = std::sqrt(squares) / 4;
    EXPECT_NEAR(scalars().grad_norm, norm, 1e-6 * norm);
    reference.step(grads, scalars(), 1 / (norm + 1e-6) / 4, t);
  }
  EXPECT_EQ(scalars().updates, 5u);
  const auto expect = [](const TensorView& view, const std::vector<double>& expected, const char* what) {
    expect_reduction(download(view), std::vector<float>(expected.begin(), expected.end()), DType::fp32, 5, 4, what);
  };
  expect(args.master, reference.w, "master");
  expect(args.m, reference.m, "m");
  expect(args.v, reference.v, "v");
}

// In fp32 the step reads the master directly.
class AdamWNarrow : public AdamWTest {};
TEST_P(AdamWNarrow, ComputeIsTheRoundedMaster) {
  const AdamWArgs args = make();
  prepare_update(ctx_, args.grads);
  adamw(ctx_, args);
  const TensorView rounded = upload(download(args.master), {kTotal}, dtype());
  for (const Segment& s : kSegments) {
    expect_same_bits(download(args.compute.slice_rows(s.begin, s.begin + s.size)),
                     download(rounded.slice_rows(s.begin, s.begin + s.size)), "compute");
  }
}

TEST_P(AdamWTest, PaddingStaysZero) {
  const AdamWArgs args = make();
  prepare_update(ctx_, args.grads);
  adamw(ctx_, args);
  const std::vector<float> after = state(args);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{1000, 1024}, {21027, 21248}, {40704, kTotal}}) {
    for (int64_t offset = 0; offset < static_cast<int64_t>(after.size()); offset += kTotal) {
      const auto first = static_cast<size_t>(offset + begin), count = static_cast<size_t>(end - begin);
      expect_same_bits(std::span(after).subspan(first, count), std::vector<float>(count), "padding");
    }
  }
}

TEST_P(AdamWTest, FusedOrNotAgreesWithTheCpu) {
  for (bool fused : {true, false}) {
    ctx_.kernels.fused_adamw = fused;
    scalars().updates = 0;
    const AdamWArgs args = make(), expected = make();
    for (uint32_t step = 0; step < 3; ++step) {
      set(args.grads, gradient(step));
      set(expected.grads, gradient(step));
      prepare_update(ctx_, args.grads);
      adamw(ctx_, args);
      adamw(reference_, expected);
    }
    expect_within_ulps(download(args.master), download(expected.master), DType::fp32, 2, "master");
    expect_within_ulps(download(args.m), download(expected.m), DType::fp32, 2, "m");
    expect_within_ulps(download(args.v), download(expected.v), DType::fp32, 2, "v");
    if (!args.compute.defined()) continue;
    expect_within_ulps(download(args.compute), download(expected.compute), dtype(), 1, "compute");
  }
}

TEST_P(AdamWTest, SplitsAndThreadsGiveTheSameBits) {
  const std::vector<float> whole = run({0, kTotal});
  expect_same_bits(run({0, 1, 3, 999, 1010, 1024, 1025, 17000, 21027, 30001, kTotal}), whole, "split");
  for (int threads : {1, 3, 7}) {
    use_threads(threads);
    expect_same_bits(run({0, kTotal}), whole, "threads");
  }
}

TEST_P(AdamWTest, ANonFiniteStepChangesNothing) {
  const AdamWArgs args = make();
  const std::vector<float> before = state(args);
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> grads = gradient(0);
    grads[kTotal - 300] = bad;
    set(args.grads, grads);
    prepare_update(ctx_, args.grads);
    EXPECT_EQ(scalars().finite, 0u);
    adamw(ctx_, args);
  }
  set(args.grads, gradient(0));
  scalars().loss_sum = std::numeric_limits<double>::quiet_NaN();
  prepare_update(ctx_, args.grads);
  EXPECT_EQ(scalars().finite, 0u);
  adamw(ctx_, args);
  EXPECT_EQ(scalars().updates, 0u);
  EXPECT_EQ(scalars().bias_correction1, 0);
  EXPECT_EQ(scalars().bias_correction2, 0);
  expect_same_bits(state(args), before, "state");
  scalars().loss_sum = 1;
  prepare_update(ctx_, args.grads);
  EXPECT_EQ(scalars().finite, 1u);
  EXPECT_EQ(scalars().updates, 1u);
}

TEST_P(AdamWTest, OnPaperScratchIsAsInTheRun) {
  AdamWArgs args = make();
  prepare_update(ctx_, args.grads);
  adamw(ctx_, args);
  ExecContext paper;
  paper.dry = true;
  paper.device = ctx_.device;
  for (TensorView* view : {&args.master, &args.compute, &args.grads, &args.m, &args.v, &args.block_groups})
    view->data = nullptr;
  prepare_update(paper, args.grads);
  adamw(paper, args);
  EXPECT_EQ(paper.scratch.high_water(), ctx_.scratch.high_water());
}

class PrepareUpdate : public AdamWTest {};

TEST_P(PrepareUpdate, NormFactorAndCorrections) {
  scalars().updates = 6;
  prepare_update(ctx_, upload(std::vector<float>{3, 0, -4}, {3}, DType::fp32));
  EXPECT_FLOAT_EQ(scalars().grad_norm, 1.25f);  // 5, divided by a loss scale of 4
  EXPECT_FLOAT_EQ(scalars().grad_factor, static_cast<float>(1 / (1.25 + 1e-6) / 4));
  EXPECT_EQ(scalars().updates, 7u);
  EXPECT_FLOAT_EQ(scalars().bias_correction1, static_cast<float>(1 - std::pow(0.9, 7)));
  EXPECT_FLOAT_EQ(scalars().bias_correction2, static_cast<float>(1 - std::pow(0.95, 7)));
}

TEST_P(PrepareUpdate, NoClippingBelowTheLimitOrWhenOff) {
  const TensorView grads = upload(std::vector<float>{3, 0, -4}, {3}, DType::fp32);
  scalars().clip = 2;
  prepare_update(ctx_, grads);
  EXPECT_EQ(scalars().grad_factor, 0.25f);
  scalars().clip = 0;
  prepare_update(ctx_, upload(std::vector<float>{1000}, {1}, DType::fp32));
  EXPECT_EQ(scalars().grad_factor, 0.25f);
}

TEST_P(PrepareUpdate, BitsDoNotDependOnThreads) {
  const TensorView grads = upload(random_values(5 * kNormChunk + 77, 1), {5 * kNormChunk + 77}, DType::fp32);
  float first = 0;
  for (int threads : {1, 2, 3, 7}) {
    use_threads(threads);
    prepare_update(ctx_, grads);
    if (threads == 1) first = scalars().grad_norm;
    EXPECT_EQ(scalars().grad_norm, first);
  }
}

TEST_P(PrepareUpdate, NormOfManyChunks) {
  for (int64_t size : {int64_t{0}, int64_t{1}, int64_t{1027}, kNormChunk, kNormChunk + 2, 37 * kNormChunk + 77}) {
    const TensorView grads = upload(random_values(size, 1), {size}, DType::fp32);
    prepare_update(reference_, grads);
    const StepScalars expected = scalars();
    scalars().updates -= 1;
    prepare_update(ctx_, grads);
    EXPECT_NEAR(scalars().grad_norm, expected.grad_norm, 1e-6 * expected.grad_norm);
    EXPECT_NEAR(scalars().grad_factor, expected.grad_factor, 1e-6 * expected.grad_factor);
    EXPECT_EQ(scalars().updates, expected.updates);
    EXPECT_FLOAT_EQ(scalars().bias_correction2, expected.bias_correction2);
  }
}

// More partials than a block has threads, and a sum that would reveal a missing one.
class PrepareUpdateLarge : public OpTest {
 protected:
  PrepareUpdateLarge() : OpTest(size_t{48} << 20) {}
};
TEST_P(PrepareUpdateLarge, EveryChunkCountsOnce) {
  constexpr int64_t kChunks = 601, kSize = (kChunks - 1) * kNormChunk + 4;
  const TensorView grads = tensor({kSize}, DType::fp32);
  std::fill_n(grads.ptr<float>(), kSize, 0.0f);
  double squares = 0;
  for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
    const auto value = static_cast<float>(chunk + 1);
    grads.ptr<float>()[chunk * kNormChunk + chunk % 4] = value;
    squares += double(value) * value;
  }
  for (int run = 0; run < 3; ++run) {
    prepare_update(ctx_, grads);
    EXPECT_FLOAT_EQ(scalars().grad_norm, static_cast<float>(std::sqrt(squares)));
    EXPECT_EQ(scalars().blocks_done, 0u);
  }
  EXPECT_EQ(scalars().updates, 3u);
}

class Verdict : public PrepareUpdate {
 protected:
  // One step with the mean loss `loss`. The norm of the gradient before unscaling is 5.
  void step(double loss, float bad = 0) {
    scalars().inv_targets = 0.5f;
    scalars().loss_sum = 2 * loss;
    prepare_update(ctx_, upload(std::vector<float>{3, bad, -4}, {3}, DType::fp32));
  }
};

TEST_P(Verdict, ALossAboveTheLimitGatesTheUpdate) {
  scalars().loss_limit = 3;
  step(3);
  EXPECT_EQ(scalars().finite, 1u);
  step(3.01);
  EXPECT_EQ(scalars().finite, 0u);
  EXPECT_FLOAT_EQ(scalars().grad_norm, 1.25f);
  EXPECT_EQ(scalars().updates, 1u);
  step(INFINITY);
  EXPECT_EQ(scalars().finite, 0u);
  scalars().loss_limit = std::numeric_limits<float>::infinity();
  step(1e30);
  EXPECT_EQ(scalars().finite, 1u);
  EXPECT_EQ(scalars().loss_scale, 4) << "it changes only when asked to";
}

TEST_P(Verdict, LossScaleGrowsAfterAStreakAndHalvesAfterABadStep) {
  scalars().scale_growth_steps = 3;
  scalars().clip = 0;
  step(1), step(1);
  EXPECT_EQ(scalars().loss_scale, 4);
  EXPECT_EQ(scalars().scale_streak, 2u);
  step(1);
  EXPECT_EQ(scalars().grad_factor, 0.25f) << "this step's gradient has the old scale";
  EXPECT_EQ(scalars().loss_scale, 8);
  EXPECT_EQ(scalars().scale_streak, 0u);
  step(1);
  step(1, NAN);
  EXPECT_EQ(scalars().finite, 0u);
  EXPECT_EQ(scalars().loss_scale, 4);
  EXPECT_EQ(scalars().scale_streak, 0u);
  step(NAN);
  EXPECT_EQ(scalars().loss_scale, 2);
  step(1);
  scalars().loss_limit = 2;
  step(2.5);
  EXPECT_EQ(scalars().finite, 0u);
  EXPECT_EQ(scalars().loss_scale, 2);
  EXPECT_EQ(scalars().scale_streak, 1u);
}

TEST_P(Verdict, LossScaleStaysBetweenOneAndItsLargest) {
  scalars().scale_growth_steps = 1;
  scalars().loss_scale = 0x1p23f;
  step(1), step(1), step(1);
  EXPECT_EQ(scalars().loss_scale, 0x1p24f);
  scalars().loss_scale = 2;
  step(1, INFINITY), step(1, INFINITY), step(1, INFINITY);
  EXPECT_EQ(scalars().loss_scale, 1);
}

INSTANTIATE_TEST_SUITE_P(Ops, Verdict, testing::ValuesIn(fp32_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, PrepareUpdateLarge, testing::ValuesIn(fp32_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, PrepareUpdate, testing::ValuesIn(fp32_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, AdamWNarrow, testing::ValuesIn(cases_without(DType::fp32)), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, AdamWTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
