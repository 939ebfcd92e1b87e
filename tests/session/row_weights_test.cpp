// SPDX-License-Identifier: Apache-2.0
// Weights of rows in a training step: what 0, 2 and -1 mean, and the memory they take.
#include <gtest/gtest.h>

#include "data/characters/loader.h"
#include "run/run_options.h"
#include "session/session.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kVocab = 33, kContext = 20, kSeqs = 4;

class RowWeights : public testing::TestWithParam<Device> {
 protected:
  RowWeights() {
    config_.model.style = "llama";
    config_.model.layers = 2;
    config_.model.heads = 4;
    config_.model.kv_heads = 2;
    config_.model.width = 32;
    config_.model.context = kContext;
    config_.model.dropout = 0;
    config_.training.batch_size = kSeqs;
    config_.machine.device = GetParam() == Device::cpu ? "cpu" : "cuda";
    config_.machine.dtype = "fp32";
    config_.machine.threads = 2;
    config_.machine.deterministic = true;
  }
  void SetUp() override {
    if (!is_present(GetParam())) GTEST_SKIP() << "there is no GPU here";
  }

  // kSeqs different sequences.
  static MicroBatch batch() {
    std::vector<int32_t> ids;
    for (float value : random_values(2000, 9)) ids.push_back(static_cast<int32_t>((value + 1) * 0.5f * (kVocab - 1)));
    std::vector<Window> windows;
    for (int64_t s = 0; s < kSeqs; ++s) windows.push_back({s * 37, kContext});
    return make_micro_batch(ids, windows, kSeqs, kContext);
  }

  SessionOptions options(bool row_weights) const {
    SessionOptions options = session_options(config_);
    options.row_weights = row_weights;
    options.poison = true;
    return options;
  }

  struct Result {
    double loss = 0;
    std::vector<float> grads;
  };
  Result step(const MicroBatch& batch, bool row_weights) const {
    const Transformer model(model_spec(config_, kVocab));
    Session session(model, options(row_weights));
    session.begin_step(0, 0, kSeqs * kContext);
    session.train_micro(batch);
    Result result;
    result.grads = session.read(session.gradients().flat());
    result.loss = session.end_step().loss_sum;
    const Session::ArenaUse use = session.arena_use();
    EXPECT_EQ(use.persistent, session.memory_plan().persistent.bytes);
    return result;
  }

  static void expect_same(const Result& a, const Result& b) {
    EXPECT_EQ(a.loss, b.loss);
    expect_same_bits(a.grads, b.grads, "gradients");
  }

  RunConfig config_;
};

TEST_P(RowWeights, OfOneOrNoneChangeNothing) {
  MicroBatch batch = this->batch();
  const Result plain = step(batch, false);
  expect_same(step(batch, true), plain);
  batch.weights.assign(batch.tokens.size(), 1.0f);
  expect_same(step(batch, true), plain);
}

TEST_P(RowWeights, OfZeroAreIgnoredTargets) {
  MicroBatch weighted = batch(), ignored = batch();
  weighted.weights.assign(weighted.tokens.size(), 1.0f);
  for (size_t row = 0; row < weighted.tokens.size(); row += 3) {
    weighted.weights[row] = 0;
    ignored.targets[row] = kIgnoredTarget;
  }
  expect_same(step(weighted, true), step(ignored, false));
}

TEST_P(RowWeights, OfTwoCountLikeASecondSequence) {
  MicroBatch twice = batch(), weighted = batch();
  const auto copy = [](std::vector<int32_t>& values) {
    std::copy_n(values.begin() + kContext, kContext, values.begin() + 2 * kContext);
  };
  copy(twice.tokens);
  copy(twice.targets);
  weighted.weights.assign(weighted.tokens.size(), 1.0f);
  std::fill_n(weighted.weights.begin() + kContext, kContext, 2.0f);
  std::fill_n(weighted.weights.begin() + 2 * kContext, kContext, 0.0f);
  const Result a = step(twice, true), b = step(weighted, true);
  EXPECT_NEAR(a.loss, b.loss, 1e-4);
  expect_close(b.grads, a.grads, 1e-5, "gradients");
}

TEST_P(RowWeights, OfMinusOneTurnTheGradientRound) {
  MicroBatch batch = this->batch();
  const Result plain = step(batch, true);
  batch.weights.assign(batch.tokens.size(), -1.0f);
  const Result turned = step(batch, true);
  EXPECT_EQ(turned.loss, -plain.loss);
  for (size_t i = 0; i < plain.grads.size(); ++i) ASSERT_EQ(turned.grads[i], -plain.grads[i]) << i;
}

TEST_P(RowWeights, EvaluationsDoNotSeeThem) {
  const Transformer model(model_spec(config_, kVocab));
  Session session(model, options(true));
  MicroBatch batch = this->batch();
  const double plain = session.eval_micro(batch);
  batch.weights.assign(batch.tokens.size(), 3.0f);
  EXPECT_EQ(session.eval_micro(batch), plain);
}

TEST_P(RowWeights, TakeMemoryWhereTheyAreAskedFor) {
  const Transformer model(model_spec(config_, kVocab));
  const auto bytes = [&](bool row_weights) {
    const MemoryPlan plan = Session::plan(model, options(row_weights));
    for (const OwnerBytes& owner : plan.persistent.owners) {
      if (owner.owner == "train inputs.batch") return owner.bytes;
    }
    return size_t{0};
  };
  const size_t rows = batch().tokens.size();
  EXPECT_NEAR(double(bytes(true) - bytes(false)), double(rows * sizeof(float)), double(align_up(1)));
  EXPECT_GT(bytes(true), bytes(false));
}

INSTANTIATE_TEST_SUITE_P(Devices, RowWeights, testing::ValuesIn(devices_of_build()),
                         [](const auto& test) { return name_of_device(test.param); });

}  // namespace
}  // namespace gradmill::test
