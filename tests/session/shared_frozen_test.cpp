// SPDX-License-Identifier: Apache-2.0
// Sessions that read one frozen base have the bits of sessions with a base each.
#include <gtest/gtest.h>

#include "data/characters/loader.h"
#include "run/run_options.h"
#include "session/memory_check.h"
#include "session/session.h"
#include "support/errors.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kVocab = 33;

RunConfig small_config(const std::string& dtype) {
  RunConfig config;
  config.model.layers = 2;
  config.model.heads = 4;
  config.model.width = 64;
  config.model.context = 20;
  config.training.batch_size = 4;
  config.machine.device = "cpu";
  config.machine.dtype = dtype;
  config.machine.threads = 2;
  return config;
}

// LoRA or DoRA of the attention's output in every block, and of the MLP's where `rank` is even.
Transformer adapted(const RunConfig& config, int64_t rank, WeightFormat base, bool dora = false) {
  AdapterPlan plan{.freezes_base = true, .dora = dora, .base = base};
  for (int64_t layer = 0; layer < config.model.layers; ++layer) {
    const std::string name = fmt::format("layers.{}.", layer);
    plan.linears[name + "attention.out"] = {{"o_proj", config.model.width, rank, 2.0f}};
    if (rank % 2 == 0) plan.linears[name + "mlp.down"] = {{"down_proj", config.model.width, rank, 2.0f}};
  }
  return Transformer(model_spec(config, kVocab), plan);
}

std::vector<float> results(Session& session, const RunConfig& config) {
  std::vector<int32_t> ids;
  for (float value : random_values(2000, 9)) ids.push_back(static_cast<int32_t>((value + 1) * 0.5f * (kVocab - 1)));
  LoaderOptions loading = loader_options(config);
  loading.num_threads = 0;
  TrainLoader loader(ids, loading);
  std::vector<float> values;
  for (int64_t step = 0; step < 3; ++step) {
    const StepBatch batch = loader.next();
    session.begin_step(step, 1e-2f, batch.num_targets);
    for (const MicroBatch& micro : batch.micro) session.train_micro(micro);
    values.push_back(static_cast<float>(session.end_step().loss_sum));
  }
  const std::vector<float> weights = session.read(session.weights().flat_master());
  values.insert(values.end(), weights.begin(), weights.end());
  for (const MicroBatch& batch : eval_batches(ids, session.options().eval_seqs, config.model.context, 300)) {
    values.push_back(static_cast<float>(session.eval_micro(batch)));
  }
  return values;
}

struct Case {
  std::string name, dtype;
  WeightFormat base;
  bool dora;
};

class SharedFrozen : public testing::TestWithParam<Case> {
 protected:
  SharedFrozen() : config_(small_config(GetParam().dtype)) {
    options_ = session_options(config_);
    options_.poison = true;
  }
  Transformer model(int64_t rank) const { return adapted(config_, rank, GetParam().base, GetParam().dora); }

  RunConfig config_;
  SessionOptions options_;
};

TEST_P(SharedFrozen, SessionsHaveTheBitsOfSessionsWithTheirOwn) {
  const Transformer small = model(3), large = model(4);
  Session own_small(small, options_), own_large(large, options_);
  const std::vector<float> expected_small = results(own_small, config_);
  // Random values go by the number of a parameter, so the other base gets this one's.
  own_large.write_weights([&](ExecContext& ctx, Weights& weights) {
    for (ParamId id = 0; id < large.params().size(); ++id) {
      const ParamSpec& spec = large.params().spec(id);
      if (spec.trainable || spec.beside_model || weights.is_quantised(id)) continue;
      const std::vector<float> values = own_small.weights().get(ctx, small.params().find(spec.name));
      weights.set(ctx, id, values.data());
    }
    weights.refresh_compute(ctx);
  });

  SessionOptions beside = options_, reading = options_;
  beside.frozen_beside_slab = true;
  auto first = std::make_unique<Session>(small, beside);
  reading.frozen = first->share_frozen();
  Session second(small, reading);
  expect_same_bits(results(*first, config_), expected_small, "the first session");
  expect_same_bits(results(second, config_), expected_small, "the second session");

  // The base outlives the session that brought it, and a reset leaves it alone.
  first.reset();
  second.reset(options_.seed, options_.adamw, options_.dropout);
  expect_same_bits(results(second, config_), expected_small, "after a reset");

  // Trials with other adapters read the same base.
  if (GetParam().base != WeightFormat::compute || GetParam().dora) return;
  Session third(large, reading);
  expect_same_bits(results(third, config_), results(own_large, config_), "other adapters");
}

TEST_P(SharedFrozen, ThePlanSaysWhoseTheBlockIs) {
  const Transformer small = model(3);
  SessionOptions beside = options_, reading = options_;
  beside.frozen_beside_slab = true;
  Session first(small, beside);
  reading.frozen = first.share_frozen();
  const MemoryPlan own = Session::plan(small, options_), lends = first.memory_plan(),
                   borrows = Session::plan(small, reading);
  EXPECT_EQ(own.frozen.bytes, 0u);
  EXPECT_GT(lends.frozen.bytes, 10000u);
  EXPECT_EQ(lends.allocated_bytes(), own.allocated_bytes());
  EXPECT_EQ(lends.slab_bytes(), own.slab_bytes() - lends.frozen.bytes);
  EXPECT_EQ(borrows.frozen.bytes, lends.frozen.bytes);
  EXPECT_EQ(borrows.allocated_bytes(), lends.slab_bytes());
  EXPECT_EQ(borrows.total_bytes(), own.total_bytes() - lends.frozen.bytes);
  EXPECT_NE(describe(lends).find("frozen, beside the slab"), std::string::npos) << describe(lends);
  EXPECT_NE(describe(borrows).find("not counted"), std::string::npos) << describe(borrows);
  require_memory(borrows, reading, {}, lends.slab_bytes());
  expect_error([&] { require_memory(lends, beside, {}, lends.slab_bytes()); }, ExitCode::out_of_memory, {});
}

INSTANTIATE_TEST_SUITE_P(Bases, SharedFrozen,
                         testing::Values(Case{"fp32", "fp32", WeightFormat::compute, false},
                                         Case{"bf16", "bf16", WeightFormat::compute, false},
                                         Case{"dora", "fp32", WeightFormat::compute, true},
                                         Case{"int8", "fp32", WeightFormat::int8, false},
                                         Case{"nf4", "bf16", WeightFormat::nf4, false}),
                         [](const auto& test) { return test.param.name; });

TEST(SharedFrozenErrors, OtherModelsTypesAndDevicesAreRefused) {
  RunConfig config = small_config("fp32");
  const Transformer model = adapted(config, 4, WeightFormat::compute);
  SessionOptions options = session_options(config);
  options.frozen_beside_slab = true;
  Session first(model, options);
  options.frozen_beside_slab = false;
  options.frozen = first.share_frozen();
  const auto refused = [&](const Transformer& other, const SessionOptions& with, const char* why) {
    expect_error([&] { Session(other, with); }, ExitCode::usage, {why});
  };
  SessionOptions narrow = options;
  narrow.dtype = DType::bf16;
  refused(model, narrow, "are for fp32, the session is for bf16");
  refused(adapted(config, 4, WeightFormat::int8), options, "has another shape or format");
  config.model.width = 128;
  refused(adapted(config, 4, WeightFormat::compute), options, "has another shape or format");
  config.machine.device = "h200";
  SessionOptions elsewhere = options;
  elsewhere.device = session_options(config).device;
  expect_error([&] { Session::plan(model, elsewhere); }, ExitCode::usage, {"the session is on H200"});
}

}  // namespace
}  // namespace gradmill::test
