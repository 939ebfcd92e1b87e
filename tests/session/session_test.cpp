// SPDX-License-Identifier: Apache-2.0
// The contracts of a session: the plan is exact, and results do not depend on threads, save policy or the split of a
// batch.
#include "session/session.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/characters/loader.h"
#include "ops/transfer.h"
#include "support/op_test.h"
#include "run/run_options.h"

namespace gradmill::test {
namespace {

constexpr int64_t kVocab = 33;

std::vector<int32_t> tokens() {
  std::vector<int32_t> ids;
  for (float value : random_values(2000, 9)) ids.push_back(static_cast<int32_t>((value + 1) * 0.5f * (kVocab - 1)));
  return ids;
}

RunConfig small_config(const std::string& style) {
  RunConfig config;
  config.model.style = style;
  config.model.layers = 2;
  config.model.heads = 4;
  config.model.kv_heads = style == "qwen3" ? 2 : 0;
  config.model.width = 32;
  config.model.context = 20;
  config.model.dropout = 0.2;
  config.training.batch_size = 5;
  config.machine.device = "cpu";
  config.machine.threads = 2;
  return config;
}

LoaderOptions in_line(const RunConfig& config) {
  LoaderOptions options = loader_options(config);
  options.num_threads = 0;
  return options;
}

struct RunResult {
  std::vector<float> losses;
  std::vector<float> weights;
  Session::ArenaUse use;
  MemoryPlan plan;
};

RunResult run(const RunConfig& config, int64_t steps = 3) {
  const std::vector<int32_t> ids = tokens();
  const Transformer model(model_spec(config, kVocab));
  SessionOptions options = session_options(config);
  options.poison = true;
  Session session(model, options);
  TrainLoader loader(ids, in_line(config));
  RunResult result;
  for (int64_t step = 0; step < steps; ++step) {
    const StepBatch batch = loader.next();
    session.begin_step(step, 1e-2f, batch.num_targets);
    for (const MicroBatch& micro : batch.micro) session.train_micro(micro);
    result.losses.push_back(static_cast<float>(session.end_step().loss_sum));
    if (step + 1 == steps) session.diagnose(batch);
  }
  for (const MicroBatch& batch : eval_batches(ids, options.eval_seqs, config.model.context, 300)) {
    result.losses.push_back(static_cast<float>(session.eval_micro(batch)));
  }
  const auto keep = [&](std::span<const float> logits) {
    result.losses.insert(result.losses.end(), logits.begin(), logits.end());
  };
  keep(session.start_generation(std::span(ids).first(static_cast<size_t>(config.model.context))));
  for (size_t i = 0; i < 3; ++i) keep(session.continue_generation(ids[i]));
  result.weights = session.read(session.weights().flat_master());
  result.use = session.arena_use();
  result.plan = session.memory_plan();
  return result;
}

void expect_same(const RunResult& actual, const RunResult& expected, const std::string& what) {
  expect_same_bits(actual.losses, expected.losses, what + ": losses");
  expect_same_bits(actual.weights, expected.weights, what + ": weights");
}

void poison_element(Session& session, const TensorView& tensor, size_t index) {
  std::vector<float> values = session.read(tensor);
  values[index] = NAN;
  copy_to_device(session.context(), tensor, values.data());
}

class SessionTest : public testing::TestWithParam<std::string> {};

TEST_P(SessionTest, PlanEqualsUseToTheByte) {
  for (const char* policy : {"none", "cheap", "block"}) {
    for (const char* dtype : {"fp32", "bf16"}) {
      for (int64_t micro : {0, 2}) {
        RunConfig config = small_config(GetParam());
        config.machine.save_policy = policy;
        config.machine.dtype = dtype;
        config.training.micro_batch_size = micro;
        const RunResult result = run(config);
        EXPECT_EQ(result.use.persistent, result.plan.persistent.bytes);
        for (int p = 0; p < kNumPhases; ++p) {
          const PhasePlan& plan = result.plan.phases[static_cast<size_t>(p)];
          EXPECT_EQ(result.use.phases[p].saved, plan.saved.bytes)
              << name_of(static_cast<Phase>(p)) << " " << policy << " " << dtype;
          EXPECT_EQ(result.use.phases[p].scratch, plan.scratch.bytes)
              << name_of(static_cast<Phase>(p)) << " " << policy << " " << dtype;
        }
      }
    }
  }
}

TEST_P(SessionTest, OwnersAddUpAndPoliciesSave) {
  size_t previous = ~size_t{0};
  for (const char* policy : {"none", "cheap", "block"}) {
    RunConfig config = small_config(GetParam());
    config.machine.save_policy = policy;
    config.machine.device = "h200";
    const Transformer model(model_spec(config, kVocab));
    const MemoryPlan plan = Session::plan(model, session_options(config));
    const auto sum = [](const ArenaPlan& arena) {
      size_t bytes = 0;
      for (const OwnerBytes& owner : arena.owners) bytes += owner.bytes;
      return bytes;
    };
    EXPECT_EQ(sum(plan.persistent), plan.persistent.bytes);
    EXPECT_EQ(sum(plan.phase(Phase::train).saved), plan.phase(Phase::train).saved.bytes);
    EXPECT_EQ(sum(plan.phase(Phase::train).scratch), plan.phase(Phase::train).scratch.bytes);
    EXPECT_LT(plan.phase(Phase::train).saved.bytes, previous);
    previous = plan.phase(Phase::train).saved.bytes;
    EXPECT_GT(plan.phase(Phase::train).ledger.total().flops, 0);
    EXPECT_NE(describe(plan).find("layers.*.mlp"), std::string::npos) << describe(plan);
  }
}

TEST_P(SessionTest, PositionTablesAreAsLongAsTheContext) {
  if (std::string(GetParam()) != "qwen3") GTEST_SKIP() << "gpt2 learns its positions";
  const RunConfig config = small_config(GetParam());
  TransformerSpec spec = model_spec(config, kVocab);
  spec.max_positions = 1 << 17;
  const SessionOptions options = session_options(config);
  const MemoryPlan plan = Session::plan(Transformer(spec), options);
  size_t bytes = 0;
  for (const OwnerBytes& owner : plan.persistent.owners) bytes += owner.owner == "rope table" ? owner.bytes : 0;
  const int64_t head_dim = config.model.width / config.model.heads;
  EXPECT_EQ(bytes, align_up(static_cast<size_t>(options.context * head_dim) * sizeof(float)));
}

TEST_P(SessionTest, BitsDoNotDependOnThreads) {
  RunConfig config = small_config(GetParam());
  config.machine.threads = 1;
  const RunResult expected = run(config);
  for (int threads : {2, 3, 7}) {
    config.machine.threads = threads;
    expect_same(run(config), expected, std::to_string(threads) + " threads");
  }
}

TEST_P(SessionTest, BitsDoNotDependOnTheSavePolicy) {
  for (const char* dtype : {"fp32", "bf16", "fp16"}) {
    RunConfig config = small_config(GetParam());
    config.machine.dtype = dtype;
    const RunResult expected = run(config);
    for (const char* policy : {"cheap", "block"}) {
      config.machine.save_policy = policy;
      expect_same(run(config), expected, std::string(policy) + " " + dtype);
    }
  }
}

// Dropout depends on the token's index in the effective batch, so a split changes only rounding.
TEST_P(SessionTest, SplittingABatchKeepsItsDropoutAndItsGradient) {
  RunConfig config = small_config(GetParam());
  const RunResult whole = run(config, 1);
  for (int64_t micro : {1, 2, 3, 4}) {
    config.training.micro_batch_size = micro;
    const RunResult split = run(config, 1);
    EXPECT_NEAR(split.losses[0] / whole.losses[0], 1, 1e-6) << micro;
  }
}

TEST_P(SessionTest, LossChunksChangeOnlyRounding) {
  const RunConfig config = small_config(GetParam());
  const std::vector<int32_t> ids = tokens();
  std::vector<std::vector<float>> grads;
  for (int64_t chunk : {0, 13, 128}) {
    TransformerSpec spec = model_spec(config, kVocab);
    spec.loss_chunk_rows = chunk;
    const Transformer model(spec);
    Session session(model, session_options(config));
    TrainLoader loader(ids, in_line(config));
    const StepBatch batch = loader.next();
    session.begin_step(0, 0, batch.num_targets);
    session.train_micro(batch.micro[0]);
    grads.push_back(session.read(session.gradients().flat()));
    expect_close(grads.back(), grads.front(), 1e-6, "gradients with chunks of " + std::to_string(chunk));
  }
}

TEST_P(SessionTest, ANonFiniteStepLeavesTheWeightsAlone) {
  RunConfig config = small_config(GetParam());
  const std::vector<int32_t> ids = tokens();
  const Transformer model(model_spec(config, kVocab));
  Session session(model, session_options(config));
  TrainLoader loader(ids, in_line(config));
  const StepBatch batch = loader.next();
  const ParamId norm = model.params().find("norm.weight");
  std::vector<float> values = session.weights().get(session.context(), norm);
  values[3] = INFINITY;
  session.weights().set(session.context(), norm, values.data());
  const ParamId table = model.params().find("embedding.tokens.weight");
  const std::vector<float> before = session.weights().get(session.context(), table);
  session.begin_step(0, 1e-2f, batch.num_targets);
  session.train_micro(batch.micro[0]);
  const Session::StepResult result = session.end_step();
  EXPECT_FALSE(result.finite);
  EXPECT_FALSE(std::isfinite(result.loss_sum) && std::isfinite(result.grad_norm));
  EXPECT_EQ(result.progress.updates, 0u);
  expect_same_bits(session.weights().get(session.context(), table), before, "weights");
}

// NaN in activations, loss or gradients at fifty steps: always detected, never applied, and located.
TEST_P(SessionTest, FiftyInjectedNaNsAreSeenAndNamed) {
  RunConfig config = small_config(GetParam());
  config.training.micro_batch_size = 2;
  const std::vector<int32_t> ids = tokens();
  const Transformer model(model_spec(config, kVocab));
  Session session(model, session_options(config));
  TrainLoader loader(ids, in_line(config));
  const char* kNames[] = {"layers.0.mlp.down.weight", "layers.1.attention.out.weight", "norm.weight",
                          "embedding.tokens.weight"};
  const char* kWhere[] = {"'layers.0'", "'layers.1'", "'norm'", "'embedding'"};
  for (int i = 0; i < 50; ++i) {
    const StepBatch batch = loader.next();
    const bool in_gradient = i % 5 == 4;
    const ParamId id = model.params().find(kNames[i % 5 % 4]);
    const std::vector<float> good = session.weights().get(session.context(), id);
    std::vector<float> bad = good;
    std::fill(bad.begin(), bad.end(), NAN);
    if (!in_gradient) session.weights().set(session.context(), id, bad.data());
    const ParamId witness = model.params().find("layers.0.attention.qkv.weight");
    const std::vector<float> before = session.weights().get(session.context(), witness);

    session.begin_step(batch.step, 1e-2f, batch.num_targets);
    for (const MicroBatch& micro : batch.micro) session.train_micro(micro);
    if (in_gradient) poison_element(session, session.gradients().view(witness), 7);
    const Session::StepResult result = session.end_step();
    EXPECT_FALSE(result.finite) << i;
    EXPECT_FALSE(std::isfinite(result.loss_sum) && std::isfinite(result.grad_norm)) << i;
    expect_same_bits(session.weights().get(session.context(), witness), before, "weights");
    const std::string named = session.diagnose(batch);
    EXPECT_NE(named.find(in_gradient ? "'layers.0.attention.qkv.weight'" : kWhere[i % 5]), std::string::npos)
        << i << ": " << named;
    if (!in_gradient) {
      EXPECT_NE(named.find("sample 0"), std::string::npos) << named;
      session.weights().set(session.context(), id, good.data());
    }
  }
}

// 128 sequences at once, as four times 32, and as 26 + 26 + 26 + 25 + 25; a third of the targets is ignored.
TEST_P(SessionTest, AnySplitOfABatchHasTheSameGradient) {
  RunConfig config = small_config(GetParam());
  config.model.dropout = 0;
  config.training.batch_size = 128;
  const std::vector<int32_t> ids = tokens();
  std::vector<float> whole;
  for (int64_t micro_size : {0, 32, 26}) {
    config.training.micro_batch_size = micro_size;
    const Transformer model(model_spec(config, kVocab));
    Session session(model, session_options(config));
    StepBatch batch = TrainLoader(ids, in_line(config)).next();
    if (micro_size == 26) {
      ASSERT_EQ(batch.micro.size(), 5u);
      EXPECT_EQ(batch.micro[2].num_seqs, 26);
      EXPECT_EQ(batch.micro[3].num_seqs, 25);
    }
    batch.num_targets = 0;
    for (MicroBatch& micro : batch.micro) {
      for (size_t row = 0; row < micro.targets.size(); ++row) {
        const uint64_t token = static_cast<uint64_t>(micro.token_base) + row;
        if (token * 2654435761u % 3 == 0) micro.targets[row] = kIgnoredTarget;
        batch.num_targets += micro.targets[row] != kIgnoredTarget;
      }
    }
    session.begin_step(0, 0, batch.num_targets);
    for (const MicroBatch& micro : batch.micro) session.train_micro(micro);
    const std::vector<float> grads = session.read(session.gradients().flat());
    if (whole.empty()) whole = grads;
    expect_close(grads, whole, 1e-6, "gradients in parts of " + std::to_string(micro_size));
  }
}

INSTANTIATE_TEST_SUITE_P(Styles, SessionTest, testing::Values("gpt2", "qwen3"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace gradmill::test
