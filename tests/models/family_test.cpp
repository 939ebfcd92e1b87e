// SPDX-License-Identifier: Apache-2.0
// Compares every family with transformers on tiny random models: logits, loss and all gradients, with every save
// policy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/golden_family.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

double norm(std::span<const float> values) {
  double sum = 0;
  for (float value : values) sum += double(value) * value;
  return std::sqrt(sum);
}

std::vector<float> flat(const TensorView& view) { return {view.ptr<float>(), view.ptr<float>() + view.numel()}; }

class FamilyTest : public testing::TestWithParam<std::tuple<std::string, Device>> {
 protected:
  void SetUp() override {
    if (!is_present(std::get<Device>(GetParam()))) GTEST_SKIP() << "there is no GPU here";
    golden_ = std::make_unique<GoldenFamily>(std::get<std::string>(GetParam()), std::get<Device>(GetParam()));
  }

  std::unique_ptr<GoldenFamily> golden_;
};

// Each of the family's tensors belongs completely to exactly one of our parameters.
TEST_P(FamilyTest, NamesCoverEveryTensor) {
  std::vector<std::string> ours, theirs;
  for (ParamId id = 0; id < golden_->model().params().size(); ++id) {
    int64_t rows = 0;
    for (const HfTensor& tensor : hf_tensors(family_of(golden_->file()), golden_->model(), id)) {
      ours.push_back("grad." + tensor.name);
      rows += tensor.rows;
    }
    EXPECT_EQ(rows, golden_->model().params().spec(id).shape()[0]);
  }
  for (const std::string& name : golden_->file().names()) {
    if (name.starts_with("grad.")) theirs.push_back(name);
  }
  std::sort(ours.begin(), ours.end());
  EXPECT_EQ(ours, theirs);
}

TEST_P(FamilyTest, Logits) {
  expect_close(golden_->logits(), flat(golden_->file().at("logits")), 1e-5, "logits");
  EXPECT_NEAR(golden_->evaluate(), golden_->file().at("loss").ptr<float>()[0], 1e-5);
}

TEST_P(FamilyTest, Gradients) {
  EXPECT_NEAR(golden_->train(SavePolicy::none()), golden_->file().at("loss").ptr<float>()[0], 1e-5);
  ASSERT_TRUE(golden_->gradients().all_written());
  const int64_t count = golden_->model().params().size();
  double all = 0;
  for (ParamId id = 0; id < count; ++id) all += std::pow(norm(golden_->stored("grad.", id)), 2);
  all = std::sqrt(all);
  for (ParamId id = 0; id < count; ++id) {
    const std::vector<float> expected = golden_->stored("grad.", id);
    std::vector<float> difference = flat(golden_->gradients().view(id));
    ASSERT_EQ(difference.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) difference[i] -= expected[i];
    const double error = norm(difference), bound = 1e-4 * std::max(norm(expected), 1e-3 * all);
    EXPECT_TRUE(error <= bound) << golden_->model().params().spec(id).name << ": " << error << " of " << norm(expected)
                                << ", all " << all;
  }
}

TEST_P(FamilyTest, PoliciesGiveTheSameBits) {
  golden_->kernels().deterministic = true;
  golden_->train(SavePolicy::none());
  const std::vector<float> expected = flat(golden_->gradients().flat());
  for (SavePolicy policy : {SavePolicy::cheap(), SavePolicy::block()}) {
    golden_->train(policy);
    expect_same_bits(flat(golden_->gradients().flat()), expected, std::string(policy.name()));
  }
}

// With dropout there is no reference except the loss itself: its slope along the gradient, by central differences, must
// equal the gradient's norm.
TEST_P(FamilyTest, DropoutHasItsGradient) {
  GoldenFamily drops(std::get<std::string>(GetParam()), std::get<Device>(GetParam()), 0.2f);
  drops.kernels().deterministic = true;  // so that all policies give the same bits
  const double loss = drops.train(SavePolicy::none());
  EXPECT_GT(std::abs(loss - golden_->evaluate()), 1e-4) << "nothing was dropped";
  std::vector<float> direction = flat(drops.gradients().flat());
  for (SavePolicy policy : {SavePolicy::cheap(), SavePolicy::block()}) {
    drops.train(policy);
    expect_same_bits(flat(drops.gradients().flat()), direction, std::string(policy.name()));
  }
  drops.kernels().deterministic = false;
  drops.train(SavePolicy::none());
  expect_close(flat(drops.gradients().flat()), direction, 1e-4, "gradients that waited");
  const double slope = norm(direction);
  for (float& value : direction) value = static_cast<float>(value / slope);
  constexpr double kStep = 2e-3;
  drops.move_weights(direction, kStep);
  const double above = drops.train(SavePolicy::none());
  drops.move_weights(direction, -2 * kStep);
  const double below = drops.train(SavePolicy::none());
  EXPECT_NEAR((above - below) / (2 * kStep), slope, 1e-2 * slope);
}

TEST_P(FamilyTest, CachesContinueTheSequence) {
  if (golden_->model().spec().head != HeadKind::causal_lm) GTEST_SKIP() << "no causal language model";
  const int64_t vocab = golden_->model().spec().vocab;
  const int64_t last = golden_->file().at("lengths").ptr<int32_t>()[0] - 1;
  const std::vector<float> logits = flat(golden_->file().at("logits"));
  const std::vector<float> expected(logits.begin() + last * vocab, logits.begin() + (last + 1) * vocab);
  for (int64_t prompt : {1, 5}) expect_close(golden_->cached_logits(prompt), expected, 1e-5, "the last logits");
}

// Checks hidden(), whose result a head reads.
TEST_P(FamilyTest, HiddenStatesAreFinite) {
  const std::vector<float> hidden = golden_->hidden();
  ASSERT_EQ(std::ssize(hidden), golden_->num_rows() * golden_->model().spec().width);
  EXPECT_TRUE(std::isfinite(norm(hidden)));
}

std::string test_name(const testing::TestParamInfo<FamilyTest::ParamType>& info) {
  return name_of_device(std::get<Device>(info.param)) + "_" + std::get<std::string>(info.param);
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyTest,
                         testing::Combine(testing::ValuesIn(family_goldens()), testing::ValuesIn(devices_of_build())),
                         test_name);

}  // namespace
}  // namespace gradmill::test
