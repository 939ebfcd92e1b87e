// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw.h"

#include <cmath>
#include <limits>

#include "support/op_test.h"

namespace gradmill::test {
namespace {

// Three parameters with padding between and after them; the second crosses a task's border.
constexpr int64_t kTotal = 40960;
const std::vector<Segment> kSegments = {{.begin = 0, .size = 1000, .group = 1},
                                        {.begin = 1024, .size = 20003, .group = 0},
                                        {.begin = 21248, .size = 19456, .group = 2}};
const std::vector<ParamGroup> kGroups = {{.lr_scale = 1, .weight_decay = 0.1f},
                                         {.lr_scale = 0.5f, .weight_decay = 0},
                                         {.lr_scale = 2, .weight_decay = 0.01f}};

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
  }

  AdamWArgs make() {
    const std::vector<float> zero(kTotal);
    const TensorView compute = dtype() == DType::fp32 ? TensorView{} : tensor({kTotal}, dtype());
    return {.master = upload(random_values(kTotal, 1), {kTotal}, DType::fp32),
            .compute = compute,
            .grads = upload(gradient(0), {kTotal}, DType::fp32),
            .m = upload(zero, {kTotal}, DType::fp32),
            .v = upload(zero, {kTotal}, DType::fp32),
            .segments = kSegments,
            .groups = kGroups,
            .begin = 0,
            .end = kTotal};
  }

  // Zero in the padding, as the trainer keeps it.
  static std::vector<float> gradient(uint32_t step) {
    std::vector<float> grads(kTotal), random = random_values(kTotal, 100 + step, 3);
    for (const Segment& segment : kSegments) {
      std::copy_n(random.begin() + segment.begin, segment.size, grads.begin() + segment.begin);
    }
    return grads;
  }

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

  // Three steps over the given borders of [0, kTotal).
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

// In fp32 the master is read itself.
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

TEST_P(AdamWTest, PaddingIsNotTouched) {
  const AdamWArgs args = make();
  const std::vector<float> before = state(args);
  prepare_update(ctx_, args.grads);
  adamw(ctx_, args);
  const std::vector<float> after = state(args);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{1000, 1024}, {21027, 21248}, {40704, kTotal}}) {
    for (int64_t offset = 0; offset < static_cast<int64_t>(before.size()); offset += kTotal) {
      const auto first = static_cast<size_t>(offset + begin), count = static_cast<size_t>(end - begin);
      expect_same_bits(std::span(after).subspan(first, count), std::span(before).subspan(first, count), "padding");
    }
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
  for (TensorView* view : {&args.master, &args.compute, &args.grads, &args.m, &args.v}) view->data = nullptr;
  prepare_update(paper, args.grads);
  adamw(paper, args);
  EXPECT_EQ(paper.scratch.high_water(), ctx_.scratch.high_water());
}

class PrepareUpdate : public AdamWTest {};

TEST_P(PrepareUpdate, NormFactorAndCorrections) {
  scalars().updates = 6;
  prepare_update(ctx_, upload(std::vector<float>{3, 0, -4}, {3}, DType::fp32));
  EXPECT_FLOAT_EQ(scalars().grad_norm, 1.25f);  // 5, with a loss scale of 4
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

INSTANTIATE_TEST_SUITE_P(Ops, PrepareUpdate, testing::ValuesIn(fp32_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, AdamWNarrow, testing::ValuesIn(cases_without(DType::fp32)), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, AdamWTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
