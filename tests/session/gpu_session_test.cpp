// SPDX-License-Identifier: Apache-2.0
// Sessions on a GPU: the same losses as on the CPU, graphs and policies that change nothing, each optimisation turned
// off in turn, and constant memory use.
#include <gtest/gtest.h>

#include <cmath>

#include "data/characters/loader.h"
#include "support/temporary_folder.h"
#include "support/op_test.h"
#include "run/run_options.h"
#include "session/session.h"

namespace gradmill::test {
namespace {

constexpr int64_t kVocab = 65;

std::vector<int32_t> text() {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 20000; ++i) ids.push_back((i * i / 7 + i % 13) % kVocab);
  return ids;
}

struct RunResult {
  std::vector<float> losses;
  std::vector<float> weights;
  size_t memory_after_warm_up = 0, memory_at_end = 0;
  std::vector<std::string> notes;
};

// The test's parameter is the model style. The device is part of its name, for the test runner's filter.
class GpuSession : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!is_present(Device::cuda)) GTEST_SKIP() << "there is no GPU here";
  }

  static RunConfig small_config() {
    RunConfig config;
    config.model.style = GetParam();
    config.model.layers = 2;
    config.model.heads = 4;
    config.model.kv_heads = GetParam() == "gpt2" ? 4 : 2;
    config.model.width = 128;
    config.model.context = 64;
    config.training.batch_size = 8;
    config.machine.device = "cuda";
    config.machine.dtype = "fp32";
    return config;
  }

  static RunResult run(const RunConfig& config, int64_t steps = 8) {
    const std::vector<int32_t> ids = text();
    const Transformer model(model_spec(config, kVocab));
    SessionOptions options = session_options(config);
    RunResult result;
    options.note = [&](const std::string& line) { result.notes.push_back(line); };
    Session session(model, options);
    TrainLoader loader(ids, loader_options(config));
    for (int64_t step = 0; step < steps; ++step) {
      const StepBatch batch = loader.next();
      session.begin_step(step, 3e-3f, batch.num_targets);
      for (const MicroBatch& micro : batch.micro) session.train_micro(micro);
      result.losses.push_back(static_cast<float>(session.end_step().loss_sum / double(batch.num_targets)));
      if (step == 3) result.memory_after_warm_up = session.driver_bytes();
    }
    result.memory_at_end = session.driver_bytes();
    for (const MicroBatch& batch : eval_batches(ids, options.eval_seqs, config.model.context, 3000)) {
      result.losses.push_back(static_cast<float>(session.eval_micro(batch) / double(batch.num_targets)));
    }
    result.weights = session.read(session.weights().flat_master());
    return result;
  }

  static void expect_learns(const RunConfig& config, const std::string& what) {
    const RunResult result = run(config, 16);
    EXPECT_LT(result.losses[15], result.losses[0] - 0.3) << what;
    for (float loss : result.losses) EXPECT_TRUE(std::isfinite(loss)) << what;
  }
};

TEST_P(GpuSession, Fp32HasTheLossesOfTheCpu) {
  RunConfig config = small_config();
  const RunResult gpu = run(config);
  config.machine.device = "cpu";
  const RunResult cpu = run(config);
  ASSERT_EQ(gpu.losses.size(), cpu.losses.size());
  // Initial values differ by the rounding of logarithms and cosines.
  for (size_t i = 0; i < gpu.losses.size(); ++i) EXPECT_NEAR(gpu.losses[i], cpu.losses[i], 2e-4) << "step " << i;
}

TEST_P(GpuSession, DropoutIsTheCpus) {
  RunConfig config = small_config();
  config.model.dropout = 0.2;
  config.training.micro_batch_size = 3;  // uneven: 3 + 3 + 2
  const RunResult gpu = run(config, 4);
  config.machine.device = "cpu";
  const RunResult cpu = run(config, 4);
  for (size_t i = 0; i < gpu.losses.size(); ++i) EXPECT_NEAR(gpu.losses[i], cpu.losses[i], 3e-4) << "step " << i;
}

TEST_P(GpuSession, GraphsAndPoliciesChangeNoBit) {
  for (const char* dtype : {"fp32", "bf16"}) {
    RunConfig config = small_config();
    config.machine.dtype = dtype;
    config.machine.deterministic = true;
    config.model.dropout = 0.1;
    config.training.micro_batch_size = 3;
    config.compile.mode = "default";
    const RunResult plain = run(config);
    config.compile.mode = "reduce-overhead";
    const RunResult captured = run(config);
    EXPECT_TRUE(captured.notes.empty() || captured.notes[0].find("graphs are off") == std::string::npos)
        << captured.notes[0];
    expect_same_bits(captured.losses, plain.losses, "losses with graphs");
    expect_same_bits(captured.weights, plain.weights, "weights with graphs");
    for (const char* policy : {"cheap", "block"}) {
      config.machine.save_policy = policy;
      const RunResult saved = run(config);
      expect_same_bits(saved.losses, plain.losses, std::string("losses with policy ") + policy);
      expect_same_bits(saved.weights, plain.weights, std::string("weights with policy ") + policy);
    }
  }
}

TEST_P(GpuSession, EveryOptimisationOffTrains) {
  const TemporaryFolder folder;
  const RunConfig base = small_config();
  const auto with = [&](auto&& change) {
    RunConfig config = base;
    config.machine.dtype = "bf16";
    change(config);
    return config;
  };
  expect_learns(base, "fp32");
  for (const char* dtype : {"tf32", "bf16", "fp16"}) {
    expect_learns(with([&](RunConfig& c) { c.machine.dtype = dtype; }), dtype);
  }
  for (const char* backend : {"cudnn", "flash", "math"}) {
    expect_learns(with([&](RunConfig& c) { c.attention.backend = backend; }), backend);
  }
  for (const char* mode : {"off", "default", "reduce-overhead"}) {
    expect_learns(with([&](RunConfig& c) { c.compile.mode = mode; }), mode);
  }
  for (const char* policy : {"none", "cheap", "block"}) {
    if (GetParam() != "gpt2") break;  // only its GELU can be fused into GEMMs
    expect_learns(with([&](RunConfig& c) {
                    c.compile.mode = "max-autotune";
                    c.compile.cache = (folder.path() / "tuning").string();
                    c.machine.save_policy = policy;
                  }),
                  std::string("max-autotune, ") + policy);
    expect_learns(with([&](RunConfig& c) {
                    c.compile.mode = "max-autotune";
                    c.compile.cache = (folder.path() / "tuning").string();
                    c.machine.save_policy = policy;
                    c.model.bias = false;
                    c.model.dropout = 0.1;
                  }),
                  std::string("no biases, ") + policy);
  }
  expect_learns(with([](RunConfig& c) { c.optimizer.fused = false; }), "plain adamw");
  expect_learns(with([](RunConfig& c) { c.machine.deterministic = true; }), "deterministic");
  expect_learns(with([](RunConfig& c) { c.optimizer.clip = 0; }), "no clipping");
  expect_learns(with([](RunConfig& c) { c.data.num_workers = 0; }), "no workers");
}

TEST_P(GpuSession, Bf16StaysNearFp32) {
  RunConfig config = small_config();
  const RunResult wide = run(config, 60);
  config.machine.dtype = "bf16";
  const RunResult narrow = run(config, 60);
  // While the loss falls fast, single steps vary; means of twenty do not.
  for (size_t begin = 0; begin < 60; begin += 20) {
    double difference = 0;
    for (size_t i = begin; i < begin + 20; ++i) difference += (narrow.losses[i] - wide.losses[i]) / 20;
    EXPECT_NEAR(difference, 0, 0.05) << "steps from " << begin;
  }
}

// Models that use all optimisations at once: deferred gradients, gradients that overwrite activations, GEMMs fused with
// an activation, a padded head, and short attention with dropout or, with RoPE, gradients that overwrite the projection
// when they are rotated back. The gradients are the same as without deferring, and about the same with separate
// activations and naive attention.
TEST_P(GpuSession, BatchedGradientsAreTheSingleOnes) {
  const bool rotates = GetParam() != "gpt2";
  RunConfig config = small_config();
  config.model.layers = 7;
  config.model.width = 384;
  config.model.heads = 6;
  config.model.kv_heads = rotates ? 2 : 6;
  config.model.context = 128;
  config.model.dropout = rotates ? 0 : 0.2;
  config.model.bias = rotates;
  config.training.batch_size = 48;
  config.machine.dtype = "bf16";
  const Transformer model(model_spec(config, kVocab));
  const std::vector<int32_t> ids = text();
  const auto gradients = [&](const char* policy, auto&& adjust) {
    RunConfig with_policy = config;
    with_policy.machine.save_policy = policy;
    SessionOptions options = session_options(with_policy);
    adjust(options.kernels);
    Session session(model, options);
    TrainLoader loader(ids, loader_options(with_policy));
    const StepBatch batch = loader.next();
    session.begin_step(0, 0.0f, batch.num_targets);
    for (const MicroBatch& micro : batch.micro) session.train_micro(micro);
    session.end_step();
    return session.read(session.gradients().flat());
  };
  const auto as_it_is = [](KernelOptions&) {};
  const std::vector<float> single =
      gradients("none", [](KernelOptions& kernels) { kernels.batched_gradients = false; });
  expect_close(gradients("none", as_it_is), single, 1e-4, "all at once");
  expect_close(gradients("cheap", as_it_is), single, 1e-4, "a few at a time");
  const std::vector<float> apart = gradients("none", [&](KernelOptions& kernels) {
    kernels.batched_gradients = kernels.fused_activations = false;
    if (rotates) kernels.attention = AttentionBackend::math;
  });
  expect_close(single, apart, 3e-2, "all apart");
}

TEST_P(GpuSession, MemoryDoesNotGrow) {
  RunConfig config = small_config();
  config.machine.dtype = "bf16";
  const RunResult result = run(config, 2000);
  EXPECT_EQ(result.memory_at_end, result.memory_after_warm_up);
}

TEST_P(GpuSession, StateSurvivesTheHost) {
  const RunConfig config = small_config();
  const Transformer model(model_spec(config, kVocab));
  Session session(model, session_options(config)), other(model, session_options(config));
  const std::vector<int32_t> ids = text();
  TrainLoader loader(ids, loader_options(config));
  const auto step = [](Session& s, const StepBatch& batch) {
    s.begin_step(batch.step, 1e-3f, batch.num_targets);
    for (const MicroBatch& micro : batch.micro) s.train_micro(micro);
    return s.end_step();
  };
  Session::StepResult last;
  for (int i = 0; i < 3; ++i) last = step(session, loader.next());
  other.restore(session.host_state(), last.progress);
  const StepBatch next = loader.next();
  const Session::StepResult a = step(session, next), b = step(other, next);
  EXPECT_EQ(a.loss_sum, b.loss_sum);
  EXPECT_EQ(a.progress.updates, b.progress.updates);
  expect_same_bits(other.read(other.weights().flat_master()), session.read(session.weights().flat_master()), "weights");
}

// With graphs that the steps before the reset captured: nothing that it changes is baked into them.
TEST_P(GpuSession, AResetSessionHasTheBitsOfANewOne) {
  RunConfig config = small_config();
  config.machine.dtype = "bf16";
  config.machine.deterministic = true;
  config.model.dropout = 0.1;
  config.training.micro_batch_size = 3;
  config.optimizer.ema_decay = 0.9;
  config.compile.mode = "reduce-overhead";
  const Transformer model(model_spec(config, kVocab));
  const std::vector<int32_t> ids = text();
  const auto results = [&](Session& session) {
    TrainLoader loader(ids, loader_options(config));
    std::vector<float> values;
    for (int64_t step = 0; step < 4; ++step) {
      const StepBatch batch = loader.next();
      session.begin_step(step, 3e-3f, batch.num_targets);
      for (const MicroBatch& micro : batch.micro) session.train_micro(micro);
      values.push_back(static_cast<float>(session.end_step().loss_sum));
    }
    const Session::HostState state = session.host_state();
    values.insert(values.end(), state.masters.ptr<float>(), state.masters.ptr<float>() + state.masters.numel());
    for (const StateTensor& tensor : state.beside) {
      values.insert(values.end(), tensor.view.ptr<float>(), tensor.view.ptr<float>() + tensor.view.numel());
    }
    return values;
  };
  SessionOptions options = session_options(config);
  Session session(model, options);
  results(session);
  options.seed = 5;
  options.dropout = 0.3f;
  options.adamw = {.beta1 = 0.8f, .beta2 = 0.95f, .eps = 1e-6f, .weight_decay = 0.5f, .clip = 0.1f};
  session.reset(options.seed, options.adamw, options.dropout);
  Session fresh(model, options);
  expect_same_bits(results(session), results(fresh), "after a reset");
}

TEST_P(GpuSession, GeneratesWhatTheCpuGenerates) {
  RunConfig config = small_config();
  const std::vector<int32_t> ids = text();
  std::vector<std::vector<float>> logits;
  for (const char* device : {"cuda", "cpu"}) {
    config.machine.device = device;
    const Transformer model(model_spec(config, kVocab));
    Session session(model, session_options(config));
    std::vector<float>& all = logits.emplace_back();
    const auto keep = [&](std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); };
    keep(session.start_generation(std::span(ids).first(40)));
    for (size_t i = 0; i < 30; ++i) keep(session.continue_generation(ids[40 + i]));
  }
  expect_close(logits[0], logits[1], 1e-4, "logits");
}

INSTANTIATE_TEST_SUITE_P(cuda, GpuSession, testing::Values("gpt2", "llama", "qwen2", "qwen3"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace gradmill::test
