// SPDX-License-Identifier: Apache-2.0
// Compares loss, logits and all gradients of adapted models with peft. Also tests folders in both directions, and
// merging.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>

#include "adapters/merge.h"
#include "adapters/peft_folder.h"
#include "adapters/resolve.h"
#include "model_files/families/registry.h"
#include "support/temporary_folder.h"
#include "support/golden_model.h"
#include "support/goldens.h"
#include "support/op_test.h"
#include "session/session.h"

namespace gradmill::test {
namespace {

TransformerSpec spec_of(const SafeTensors& file) {
  const auto& about = file.metadata();
  const auto integer = [&](const char* key) { return std::stoll(about.at(key)); };
  if (about.at("family") == "gpt2") {
    TransformerSpec spec =
        gpt2_spec(integer("vocab"), integer("layers"), integer("heads"), integer("width"), integer("context"));
    spec.norm_eps = std::stof(about.at("norm_eps"));
    return spec;
  }
  TransformerSpec spec = qwen3_spec(integer("vocab"), integer("layers"), integer("heads"), integer("kv_heads"),
                                    integer("width"), integer("intermediate"), integer("context"));
  spec.head_dim = integer("head_dim");
  spec.qk_norm = false;
  spec.rope_theta = std::stof(about.at("rope_theta"));
  spec.norm_eps = std::stof(about.at("norm_eps"));
  spec.tied = about.at("tied") == "true";
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = about.at("bias") == "true";
  return spec;
}

std::filesystem::path case_path(const std::string& name) {
  return golden_path("gpt2").parent_path() / "adapters" / name;
}

// ‖a - b‖ <= 1e-5 max(‖b‖, 1e-3 ‖all‖).
void expect_gradient_close(std::span<const float> actual, const TensorView& expected, double all,
                           const std::string& what) {
  double difference = 0, norm = 0;
  ASSERT_EQ(std::ssize(actual), expected.numel()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double value = expected.ptr<float>()[i];
    difference += std::pow(actual[i] - value, 2);
    norm += value * value;
  }
  EXPECT_LE(std::sqrt(difference), 1e-5 * std::max(std::sqrt(norm), 1e-3 * all)) << what;
}

class PeftGoldenTest : public testing::TestWithParam<std::tuple<std::string, std::string, Device>> {
 protected:
  void SetUp() override {
    if (!is_present(std::get<Device>(GetParam()))) GTEST_SKIP() << "there is no GPU here";
    build(WeightFormat::compute);
  }

  void build(WeightFormat format) {
    const auto& [name, policy, device] = GetParam();
    file_.emplace(case_path(name + ".safetensors"));
    family_ = &family_named(file_->metadata().at("family"));
    config_ = read_adapter_config(case_path(name));
    base_ = std::make_unique<Transformer>(spec_of(*file_));
    model_ = std::make_unique<Transformer>(spec_of(*file_), resolve_adapters(config_, *family_, *base_, format));
    const Shape ids = file_->at("input_ids").shape;
    options_.device = test_device_spec(device);
    options_.kernels.tf32 = false;
    options_.num_threads = 2;
    options_.train_seqs = options_.eval_seqs = ids[0];
    options_.context = std::stoll(file_->metadata().at("context"));
    options_.poison = true;
    options_.policy = SavePolicy::by_name(policy);
    session_ = std::make_unique<Session>(*model_, options_);
    load_base(*session_, *model_);
    load_adapter(case_path(name) / kAdapterFile);
    batch_ = batch_of(file_->at("input_ids"), file_->at("targets"), ids[0], ids[1], options_.context);
  }

  void load_base(Session& session, const Transformer& model) {
    for (ParamId id = 0; id < model.params().size(); ++id) {
      const std::vector<HfTensor> parts = hf_tensors(*family_, model, id);
      std::vector<float> values;
      for (const HfTensor& part : parts) append(file_->at(part.name), part.transposed, values);
      if (!parts.empty()) session.weights().set(session.context(), id, values.data());
    }
  }
  void load_adapter(const std::filesystem::path& path) {
    // Fully trained modules come with the adapter, so it is loaded second.
    const Session::HostState state = session_->host_state();
    load_adapter_tensors(SafeTensors(path), *family_, *model_, state.masters);
    session_->restore(state, {});
  }
  static void append(const TensorView& view, bool transposed, std::vector<float>& values) {
    const float* data = view.ptr<float>();
    if (!transposed) {
      values.insert(values.end(), data, data + view.numel());
      return;
    }
    for (int64_t out = 0; out < view.shape[1]; ++out) {
      for (int64_t in = 0; in < view.shape[0]; ++in) values.push_back(data[in * view.shape[1] + out]);
    }
  }

  double train_loss() {
    session_->begin_step(0, 0.0f, batch_.num_targets);
    session_->train_micro(batch_);
    return session_->end_step().loss_sum / double(batch_.num_targets);
  }
  float expected_loss() const { return file_->at("loss").ptr<float>()[0]; }
  double eval_loss(Session& session) { return session.eval_micro(batch_) / double(batch_.num_targets); }

  std::optional<SafeTensors> file_;
  const Family* family_ = nullptr;
  AdapterConfig config_;
  SessionOptions options_;
  std::unique_ptr<Transformer> base_, model_;
  std::unique_ptr<Session> session_;
  MicroBatch batch_;
};

TEST_P(PeftGoldenTest, LossAndGradients) {
  EXPECT_NEAR(train_loss(), expected_loss(), 1e-5);
  const std::vector<PeftTensor> tensors = peft_tensors(*family_, *model_);
  double all = 0;
  for (const PeftTensor& tensor : tensors) {
    const TensorView grad = file_->at("grad." + tensor.name);
    for (int64_t i = 0; i < grad.numel(); ++i) all += std::pow(double(grad.ptr<float>()[i]), 2);
  }
  for (const PeftTensor& tensor : tensors) {
    const TensorView view = session_->gradients().view(tensor.param).slice_rows(tensor.begin, tensor.end);
    expect_gradient_close(session_->read(view), file_->at("grad." + tensor.name), std::sqrt(all), tensor.name);
  }
  EXPECT_NEAR(eval_loss(*session_), expected_loss(), 1e-5);
}

// A second micro-batch adds to the gradients: the same batch twice, with twice the targets, gives the same gradients.
TEST_P(PeftGoldenTest, MicroBatchesAdd) {
  train_loss();
  const std::vector<float> once = session_->read(session_->gradients().flat());
  session_->begin_step(1, 0.0f, 2 * batch_.num_targets);
  session_->train_micro(batch_);
  session_->train_micro(batch_);
  session_->end_step();
  expect_close(session_->read(session_->gradients().flat()), once, 1e-6, "gradients");
}

// Steps change adapters, and gains follow. A session that loads the result computes the same.
TEST_P(PeftGoldenTest, StepsAndEvaluationsAgree) {
  session_->begin_step(0, 0.01f, batch_.num_targets);
  session_->train_micro(batch_);
  session_->end_step();
  const double loss = eval_loss(*session_);
  EXPECT_LT(loss, expected_loss());
  const Session::HostState state = session_->host_state();
  session_->restore(state, {});
  EXPECT_EQ(eval_loss(*session_), loss);
}

TEST_P(PeftGoldenTest, NarrowTypes) {
  for (DType dtype : {DType::bf16, DType::fp16}) {
    options_.dtype = dtype;
    options_.loss_scaling.initial = dtype == DType::fp16 ? 1024.0f : 1.0f;
    build(WeightFormat::compute);
    EXPECT_NEAR(train_loss(), expected_loss(), 0.05);
    EXPECT_NEAR(eval_loss(*session_), expected_loss(), 0.05);
    double all = 0, difference = 0;
    for (const PeftTensor& tensor : peft_tensors(*family_, *model_)) {
      const TensorView grad = file_->at("grad." + tensor.name);
      const std::vector<float> ours =
          session_->read(session_->gradients().view(tensor.param).slice_rows(tensor.begin, tensor.end));
      for (int64_t i = 0; i < grad.numel(); ++i) {
        const double expected = double(grad.ptr<float>()[i]) * double(options_.loss_scaling.initial);
        all += expected * expected;
        difference += std::pow(double(ours[static_cast<size_t>(i)]) - expected, 2);
      }
    }
    EXPECT_LT(std::sqrt(difference / all), 0.1);
  }
}

TEST_P(PeftGoldenTest, MergedWeights) {
  Weights& weights = session_->weights();
  ExecContext& ctx = session_->context();
  std::vector<float> before;
  for (ParamId id = 0; id < model_->params().size(); ++id) {
    if (!model_->params().spec(id).linear) continue;
    const std::vector<float> merged = merged_values(ctx, weights, id), own = weights.get(ctx, id);
    before.insert(before.end(), own.begin(), own.end());
    std::vector<float> expected;
    for (const HfTensor& part : hf_tensors(*family_, *model_, id)) {
      const bool adapted = file_->contains("merged." + part.name);
      // A fully trained head has the adapter's values, not the base's.
      if (!adapted && model_->params().spec(id).trainable) break;
      append(file_->at((adapted ? "merged." : "") + part.name), part.transposed, expected);
    }
    if (!expected.empty()) expect_close(merged, expected, 1e-6, model_->params().spec(id).name);
  }
  {
    const MergedAdapters merged(ctx, weights);
    EXPECT_NEAR(eval_loss(*session_), expected_loss(), 1e-5);
  }
  std::vector<float> after;
  for (ParamId id = 0; id < model_->params().size(); ++id) {
    if (!model_->params().spec(id).linear) continue;
    const std::vector<float> own = weights.get(ctx, id);
    after.insert(after.end(), own.begin(), own.end());
  }
  expect_same_bits(after, before, "the base after unmerging");
  EXPECT_NEAR(eval_loss(*session_), expected_loss(), 1e-5);
}

// The folder we write equals peft's: the same tensors, bit for bit, and an equivalent config.
TEST_P(PeftGoldenTest, FolderRoundTrip) {
  const auto& [name, policy, device] = GetParam();
  const char* out = std::getenv("GRADMILL_PEFT_OUT");
  const TemporaryFolder temporary;
  const std::filesystem::path folder = (out ? std::filesystem::path(out) : temporary.path()) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const Session::HostState state = session_->host_state();
  write_peft_folder(folder, config_, *family_, *model_, state.masters);
  const SafeTensors ours(folder / kAdapterFile), theirs(case_path(name) / kAdapterFile);
  ASSERT_EQ(ours.names(), theirs.names());
  for (const std::string& tensor : ours.names()) {
    const TensorView a = ours.at(tensor), b = theirs.at(tensor);
    ASSERT_EQ(a.shape, b.shape) << tensor;
    ASSERT_EQ(a.dtype, b.dtype) << tensor;
    EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes()), 0) << tensor;
  }
  const AdapterConfig again = read_adapter_config(folder);
  EXPECT_EQ(adapter_config_json(again, false), adapter_config_json(config_, false));
}

TEST_P(PeftGoldenTest, FrozenParametersHaveNoGradientsAndNoMoments) {
  int64_t trainable = 0;
  const ParamTable& params = model_->params();
  for (ParamId id = 0; id < params.size(); ++id) {
    if (params.spec(id).trainable) trainable += params.spec(id).numel();
    if (params.spec(id).beside_model || config_.modules_to_save.size() > 0) continue;
    EXPECT_EQ(params.segment(id), nullptr) << params.spec(id).name;
  }
  EXPECT_LT(params.flat_size(), base_->params().flat_size());
  EXPECT_GE(params.flat_size(), trainable);
}

// Plans count the quantised codes: runs use exactly the planned memory, and the loss stays close.
TEST_P(PeftGoldenTest, QuantisedBases) {
  if (!file_->contains("lm_head.weight")) GTEST_SKIP() << "one family is enough";
  const size_t plain_bytes = session_->memory_plan().persistent.bytes;
  for (WeightFormat format : {WeightFormat::int8, WeightFormat::nf4}) {
    build(format);
    const double loss = train_loss();
    EXPECT_NEAR(loss, expected_loss(), format == WeightFormat::int8 ? 0.02 : 0.5);
    EXPECT_NEAR(eval_loss(*session_), loss, 1e-5);
    EXPECT_LT(session_->memory_plan().persistent.bytes, plain_bytes);
    const Session::ArenaUse use = session_->arena_use();
    EXPECT_EQ(use.persistent, session_->memory_plan().persistent.bytes);
    const PhasePlan& plan = session_->memory_plan().phase(Phase::train);
    EXPECT_EQ(use.phases[static_cast<size_t>(Phase::train)].saved, plan.saved.bytes);
    EXPECT_EQ(use.phases[static_cast<size_t>(Phase::train)].scratch, plan.scratch.bytes);
    EXPECT_THROW(MergedAdapters(session_->context(), session_->weights()), Error);
  }
}

// Dropped rows are dropped again when a block is recomputed: every policy gives the same bits.
TEST(AdapterDropout, BitsDoNotDependOnThePolicy) {
  TransformerSpec spec = qwen3_spec(41, 2, 4, 2, 32, 48, 32);
  spec.qk_norm = false;
  const Transformer base(spec);
  AdapterConfig config;
  config.targets.all_linear = true;
  config.dropout = 0.3;
  const Transformer model(spec, resolve_adapters(config, family_named("llama"), base));
  std::vector<int32_t> ids(64);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 41);
  const TensorView tokens(ids.data(), DType::int32, {2, 32});
  std::vector<float> first;
  for (const char* policy : {"none", "cheap", "block"}) {
    SessionOptions options;
    options.train_seqs = options.eval_seqs = 2;
    options.context = 32;
    options.poison = true;
    options.policy = SavePolicy::by_name(policy);
    Session session(model, options);
    std::vector<float> result;
    for (int64_t step = 0; step < 2; ++step) {
      const MicroBatch batch = batch_of(tokens, tokens, 2, 32, 32);
      session.begin_step(step, 0.1f, batch.num_targets);
      session.train_micro(batch);
      session.end_step();
      const std::vector<float> grads = session.read(session.gradients().flat());
      result.insert(result.end(), grads.begin(), grads.end());
    }
    if (first.empty()) first = result;
    expect_same_bits(result, first, policy);
  }
}

std::string test_name(const testing::TestParamInfo<PeftGoldenTest::ParamType>& info) {
  const auto& [name, policy, device] = info.param;
  return name + "_" + policy + "_" + name_of_device(device);
}

INSTANTIATE_TEST_SUITE_P(Peft, PeftGoldenTest,
                         testing::Combine(testing::Values("llama_lora", "llama_some", "llama_regex", "llama_dora",
                                                          "llama_dora_bias", "gpt2_lora", "gpt2_dora"),
                                          testing::Values("none", "cheap", "block"),
                                          testing::ValuesIn(devices_of_build())),
                         test_name);

}  // namespace
}  // namespace gradmill::test
