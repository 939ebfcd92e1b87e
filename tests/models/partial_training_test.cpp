// SPDX-License-Identifier: Apache-2.0
// A model with one trained parameter: its gradient is that of the whole model, and the backward ends at its block.
#include <gtest/gtest.h>

#include "ops/cross_entropy/cross_entropy.h"
#include "session/session.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kVocab = 37, kContext = 24, kSeqs = 2, kLayers = 3;

class PartialTrainingTest : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (!is_present(GetParam())) GTEST_SKIP() << "there is no GPU here";
  }
};

class AttentionBackwards final : public OpObserver {
 public:
  void before(std::string_view op) override { count_ += op.starts_with("attention_backward") ? 1 : 0; }
  void after(std::string_view) override {}
  int64_t count() const { return count_; }

 private:
  int64_t count_ = 0;
};

MicroBatch some_batch() {
  MicroBatch batch;
  const int64_t rows = token_capacity(kSeqs * kContext);
  for (int64_t row = 0; row < rows; ++row) {
    batch.tokens.push_back(static_cast<int32_t>(11 * row % kVocab));
    batch.targets.push_back(row < kSeqs * kContext ? static_cast<int32_t>((7 * row + 3) % kVocab) : kIgnoredTarget);
    batch.positions.push_back(static_cast<int32_t>(row % kContext));
  }
  for (int64_t seq = 0; seq <= kSeqs; ++seq) batch.cu_seqlens.push_back(static_cast<int32_t>(seq * kContext));
  batch.num_seqs = kSeqs;
  batch.num_targets = kSeqs * kContext;
  return batch;
}

struct Result {
  std::vector<float> gradient;
  int64_t blocks = 0;  // that ran backwards
};

Result train(Device device, const char* parameter, AdapterPlan plan) {
  SessionOptions options;
  options.device = test_device_spec(device);
  options.kernels.tf32 = false;
  options.num_threads = 2;
  options.train_seqs = kSeqs;
  options.context = kContext;
  options.poison = true;
  const Transformer model(gpt2_spec(kVocab, kLayers, 3, 24, kContext), std::move(plan));
  Session session(model, options);
  for (ParamId id = 0; id < model.params().size(); ++id) {
    const std::vector<float> values = random_values(model.params().spec(id).numel(), static_cast<uint32_t>(id));
    session.weights().set(session.context(), id, values.data());
  }
  AttentionBackwards backwards;
  session.context().observer = &backwards;
  const MicroBatch batch = some_batch();
  session.begin_step(0, 0.0f, batch.num_targets);
  session.train_micro(batch);
  session.end_step();
  session.context().observer = nullptr;
  return {session.read(session.gradients().view(model.params().find(parameter))), backwards.count()};
}

TEST_P(PartialTrainingTest, BackwardEndsAtTheLowestTrainedBlock) {
  const std::pair<const char*, int64_t> cases[] = {{"norm.weight", 0},
                                                   {"layers.2.mlp.down.weight", 1},
                                                   {"layers.1.attention.qkv.bias", 2},
                                                   {"layers.0.norm1.weight", 3},
                                                   {"embedding.positions.weight", 3}};
  for (const auto& [parameter, blocks] : cases) {
    const Result whole = train(GetParam(), parameter, {});
    EXPECT_EQ(whole.blocks, kLayers);
    const Result alone = train(GetParam(), parameter, {.freezes_base = true, .trained = {parameter}});
    EXPECT_EQ(alone.blocks, blocks) << parameter;
    expect_close(alone.gradient, whole.gradient, 1e-5, parameter);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PartialTrainingTest, testing::ValuesIn(devices_of_build()),
                         [](const auto& test) { return name_of_device(test.param); });

}  // namespace
}  // namespace gradmill::test
