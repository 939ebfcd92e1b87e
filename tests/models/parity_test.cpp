// SPDX-License-Identifier: Apache-2.0
// Compares logits, loss and all gradients with PyTorch, on tiny random models.
#include <gtest/gtest.h>

#include <cmath>

#include "support/golden_model.h"
#include "support/goldens.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

double norm(std::span<const float> values) {
  double sum = 0;
  for (float value : values) sum += double(value) * value;
  return std::sqrt(sum);
}

class ParityTest : public testing::TestWithParam<std::tuple<std::string, std::string, Device>> {
 protected:
  ParityTest() {
    const auto& [name, policy, device] = GetParam();
    const SafeTensors file(golden_path(name));
    ids_shape_ = file.at("input_ids").shape;
    SessionOptions options;
    options.device = test_device_spec(device);
    options.kernels.tf32 = false;
    options.num_threads = 2;
    options.train_seqs = ids_shape_[0];
    options.context = std::stoll(file.metadata().at("context"));
    options.poison = true;
    options.policy = SavePolicy::by_name(policy);
    golden_ = std::make_unique<GoldenModel>(name, "", options);
    batch_ = batch_of(golden_->file().at("input_ids"), golden_->file().at("targets"), ids_shape_[0], ids_shape_[1],
                      options.context);
  }

  void SetUp() override {
    if (!is_present(std::get<Device>(GetParam()))) GTEST_SKIP() << "there is no GPU here";
  }

  Shape ids_shape_;
  std::unique_ptr<GoldenModel> golden_;
  MicroBatch batch_;
};

TEST_P(ParityTest, LossAndGradients) {
  Session& session = golden_->session();
  session.begin_step(0, 0.0f, batch_.num_targets);
  session.train_micro(batch_);
  const double loss = session.end_step().loss_sum / double(batch_.num_targets);
  EXPECT_NEAR(loss, golden_->file().at("loss").ptr<float>()[0], 1e-5);

  const int64_t count = golden_->model().params().size();
  double all = 0;
  for (ParamId id = 0; id < count; ++id) all += std::pow(norm(golden_->stored("grad.", id)), 2);
  all = std::sqrt(all);
  for (ParamId id = 0; id < count; ++id) {
    const std::vector<float> expected = golden_->stored("grad.", id);
    const std::vector<float> actual = session.read(session.gradients().view(id));
    std::vector<float> difference(expected.size());
    for (size_t i = 0; i < expected.size(); ++i) difference[i] = actual[i] - expected[i];
    EXPECT_LE(norm(difference), 1e-4 * std::max(norm(expected), 1e-3 * all)) << golden_->model().params().spec(id).name;
  }
}

// A prompt of a different length for each sequence, then token by token.
TEST_P(ParityTest, Logits) {
  const TensorView ids = golden_->file().at("input_ids"), logits = golden_->file().at("logits");
  const int64_t length = ids_shape_[1], vocab = golden_->model().spec().vocab;
  std::vector<float> actual, expected;
  for (int64_t seq = 0; seq < ids_shape_[0]; ++seq) {
    const int32_t* tokens = ids.ptr<int32_t>() + seq * length;
    const int64_t prompt = seq % length + 1;
    for (int64_t end = prompt; end <= length; ++end) {
      Session& session = golden_->session();
      const std::span<const float> row = end == prompt ? session.start_generation({tokens, static_cast<size_t>(end)})
                                                       : session.continue_generation(tokens[end - 1]);
      actual.insert(actual.end(), row.begin(), row.end());
      const float* stored = logits.ptr<float>() + (seq * length + end - 1) * vocab;
      expected.insert(expected.end(), stored, stored + vocab);
    }
  }
  expect_close(actual, expected, 1e-5, "logits");
}

INSTANTIATE_TEST_SUITE_P(Models, ParityTest,
                         testing::Combine(testing::Values("gpt2", "qwen3", "qwen3_untied", "llama_gqa"),
                                          testing::Values("none", "cheap", "block"),
                                          testing::ValuesIn(devices_of_build())),
                         [](const auto& test) {
                           return name_of_device(std::get<2>(test.param)) + "_" + std::get<0>(test.param) + "_" +
                                  std::get<1>(test.param);
                         });

}  // namespace
}  // namespace gradmill::test
