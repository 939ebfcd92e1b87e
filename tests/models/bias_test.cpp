// SPDX-License-Identifier: Apache-2.0
// A model without biases equals one whose biases are zero: the same losses and gradients.
#include <gtest/gtest.h>

#include "support/op_test.h"
#include "session/session.h"

namespace gradmill::test {
namespace {

constexpr int64_t kVocab = 37, kContext = 24, kSeqs = 3;

class BiasTest : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (!is_present(GetParam())) GTEST_SKIP() << "there is no GPU here";
  }
};

MicroBatch random_batch() {
  MicroBatch batch;
  const auto rows = static_cast<size_t>(token_capacity(kSeqs * kContext));
  batch.tokens.assign(rows, 0);
  batch.targets.assign(rows, 0);
  batch.positions.assign(rows, 0);
  const std::vector<float> values = random_values(static_cast<int64_t>(rows), 3);
  for (size_t row = 0; row < rows; ++row) {
    const bool used = row < kSeqs * kContext;
    batch.tokens[row] = static_cast<int32_t>((values[row] + 1) * 0.5f * (kVocab - 1));
    batch.targets[row] = used ? static_cast<int32_t>((7 * batch.tokens[row] + 3) % kVocab) : -100;
    batch.positions[row] = static_cast<int32_t>(row % kContext);
  }
  for (int64_t seq = 0; seq <= kSeqs; ++seq) batch.cu_seqlens.push_back(static_cast<int32_t>(seq * kContext));
  batch.num_seqs = kSeqs;
  batch.num_targets = kSeqs * kContext;
  return batch;
}

double train(Session& session) {
  const MicroBatch batch = random_batch();
  session.begin_step(0, 0.0f, batch.num_targets);
  session.train_micro(batch);
  return session.end_step().loss_sum;
}

TEST_P(BiasTest, WithoutBiasesIsWithZeros) {
  for (const char* policy : {"none", "cheap", "block"}) {
    SessionOptions options;
    options.device = test_device_spec(GetParam());
    options.kernels.tf32 = false;
    options.num_threads = 2;
    options.train_seqs = kSeqs;
    options.context = kContext;
    options.poison = true;
    options.policy = SavePolicy::by_name(policy);
    const Transformer plain(gpt2_spec(kVocab, 2, 3, 24, kContext, false)),
        biased(gpt2_spec(kVocab, 2, 3, 24, kContext));
    EXPECT_LT(plain.params().size(), biased.params().size());
    Session without(plain, options), with_zeros(biased, options);
    for (ParamId id = 0; id < plain.params().size(); ++id) {
      const std::vector<float> values = random_values(plain.params().spec(id).numel(), static_cast<uint32_t>(id));
      without.weights().set(without.context(), id, values.data());
      const ParamId same = biased.params().find(plain.params().spec(id).name);
      with_zeros.weights().set(with_zeros.context(), same, values.data());
    }
    const double loss = train(without);
    EXPECT_NEAR(loss, train(with_zeros), 1e-5 * loss) << policy;
    for (ParamId id = 0; id < plain.params().size(); ++id) {
      const std::string& name = plain.params().spec(id).name;
      const ParamId same = biased.params().find(name);
      expect_close(without.read(without.gradients().view(id)), with_zeros.read(with_zeros.gradients().view(same)), 1e-4,
                   name + ", " + policy);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BiasTest, testing::ValuesIn(devices_of_build()),
                         [](const auto& test) { return name_of_device(test.param); });

}  // namespace
}  // namespace gradmill::test
