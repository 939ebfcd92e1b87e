// SPDX-License-Identifier: Apache-2.0
// Sessions that start over have the bits of new ones.
#include <gtest/gtest.h>

#include <chrono>

#include "data/characters/loader.h"
#include "run/run_options.h"
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
  config.model.width = 32;
  config.model.context = 20;
  config.model.dropout = 0.2;
  config.optimizer.ema_decay = 0.9;
  config.training.batch_size = 5;
  config.training.micro_batch_size = 2;
  config.machine.device = "cpu";
  config.machine.dtype = dtype;
  config.machine.threads = 2;
  return config;
}

std::vector<int32_t> tokens() {
  std::vector<int32_t> ids;
  for (float value : random_values(2000, 9)) ids.push_back(static_cast<int32_t>((value + 1) * 0.5f * (kVocab - 1)));
  return ids;
}

// Everything that a few steps leave behind: losses, masters, moments, averages, what is evaluated and generated.
std::vector<float> results(Session& session, const RunConfig& config, int64_t steps = 5) {
  const std::vector<int32_t> ids = tokens();
  LoaderOptions loading = loader_options(config);
  loading.num_threads = 0;
  TrainLoader loader(ids, loading);
  std::vector<float> values;
  const auto keep = [&](std::span<const float> more) { values.insert(values.end(), more.begin(), more.end()); };
  for (int64_t step = 0; step < steps; ++step) {
    const StepBatch batch = loader.next();
    session.begin_step(step, 1e-2f, batch.num_targets);
    for (const MicroBatch& micro : batch.micro) session.train_micro(micro);
    const Session::StepResult result = session.end_step();
    const Session::Progress& progress = result.progress;
    keep(std::array{float(result.loss_sum), result.grad_norm, float(progress.updates), progress.loss_scale,
                    float(progress.scale_streak)});
  }
  const Session::HostState state = session.host_state();
  keep({state.masters.ptr<float>(), static_cast<size_t>(state.masters.numel())});
  for (const StateTensor& tensor : state.beside) {
    keep({tensor.view.ptr<float>(), static_cast<size_t>(tensor.view.numel())});
  }
  for (const MicroBatch& batch : eval_batches(ids, session.options().eval_seqs, config.model.context, 300)) {
    values.push_back(static_cast<float>(session.eval_micro(batch)));
  }
  keep(session.start_generation(std::span(ids).first(7)));
  for (size_t i = 0; i < 3; ++i) keep(session.continue_generation(ids[i]));
  return values;
}

SessionOptions options_for(const RunConfig& config) {
  SessionOptions options = session_options(config);
  options.poison = true;
  if (options.dtype == DType::fp16) options.loss_scaling = {.initial = 1024, .growth_steps = 2};
  return options;
}

class ResetTest : public testing::TestWithParam<std::string> {};

TEST_P(ResetTest, AResetSessionHasTheBitsOfANewOne) {
  const RunConfig config = small_config(GetParam());
  const Transformer model(model_spec(config, kVocab));
  SessionOptions options = options_for(config);
  Session session(model, options);
  const std::vector<float> first = results(session, config, 4);

  options.seed = 77;
  options.dropout = 0.4f;
  options.adamw = {.beta1 = 0.8f, .beta2 = 0.97f, .eps = 1e-6f, .weight_decay = 0.3f, .clip = 0.5f};
  session.reset(options.seed, options.adamw, options.dropout);
  const std::vector<float> reset = results(session, config);
  Session fresh(model, options);
  expect_same_bits(reset, results(fresh, config), "after a reset");

  // And back to where it began.
  options = options_for(config);
  session.reset(options.seed, options.adamw, options.dropout);
  expect_same_bits(results(session, config, 4), first, "after another reset");
}

TEST_P(ResetTest, ABadStepIsForgotten) {
  const RunConfig config = small_config(GetParam());
  const Transformer model(model_spec(config, kVocab));
  const SessionOptions options = options_for(config);
  Session session(model, options), fresh(model, options);
  session.begin_step(0, NAN, 100, 0.0f);
  const std::vector<int32_t> ids = tokens();
  session.train_micro(TrainLoader(ids, loader_options(config)).next().micro[0]);
  session.end_step();
  session.exchange_average();
  session.reset(options.seed, options.adamw, options.dropout);
  expect_same_bits(results(session, config), results(fresh, config), "after a reset");
}

INSTANTIATE_TEST_SUITE_P(Types, ResetTest, testing::Values("fp32", "bf16", "fp16"),
                         [](const auto& test) { return test.param; });

TEST(Reset, DropoutCannotBeTurnedOnOrOff) {
  RunConfig config = small_config("fp32");
  const Transformer with(model_spec(config, kVocab));
  Session drops(with, session_options(config));
  expect_error([&] { drops.reset(1, {}, 0); }, ExitCode::usage, {"dropout of 0.2", "make a new session"});
  config.model.dropout = 0;
  const Transformer without(model_spec(config, kVocab));
  Session keeps(without, session_options(config));
  expect_error([&] { keeps.reset(1, {}, 0.1f); }, ExitCode::usage, {"dropout of 0 "});
}

// A model of ten million parameters. About 40 ms on two cores; the bound leaves room for busy and slow machines.
TEST(Reset, TakesMilliseconds) {
  RunConfig config = small_config("fp32");
  config.model.layers = 8;
  config.model.width = 320;
  const Transformer model(model_spec(config, kVocab));
  ASSERT_NEAR(double(model.params().num_parameters()), 1e7, 2e5);
  Session session(model, session_options(config));
  double fastest = 1e9;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const auto start = std::chrono::steady_clock::now();
    session.reset(seed, {}, 0.1f);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fastest = std::min(fastest, seconds.count());
  }
  RecordProperty("milliseconds", static_cast<int>(fastest * 1e3));
  EXPECT_LT(fastest, 0.5);
}

}  // namespace
}  // namespace gradmill::test
