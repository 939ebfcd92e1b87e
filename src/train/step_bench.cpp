// SPDX-License-Identifier: Apache-2.0
#include "train/step_bench.h"

#include <algorithm>
#include <chrono>

#include "core/op_profiler.h"
#include "core/rng.h"
#include "train/run_options.h"

namespace gradmill {
namespace {

constexpr int64_t kVocab = 65, kTokens = 1'000'000, kWarmupSteps = 5;

std::vector<int32_t> random_tokens() {
  std::vector<int32_t> tokens(kTokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(philox(0, {static_cast<uint32_t>(i), 0, 0, 0})[0] % kVocab);
  }
  return tokens;
}

}  // namespace

RunConfig bench_case(const std::string& name) {
  RunConfig config;
  if (name == "nano") return config;
  if (name != "char") throw usage_error(fmt::format("unknown case '{}'", name), "choose one of: nano, char");
  config.model.layers = config.model.heads = 6;
  config.model.width = 384;
  config.model.context = 256;
  config.training.batch_size = 16;
  return config;
}

StepBenchResult bench_steps(const RunConfig& config, int64_t steps, bool profile) {
  const std::vector<int32_t> tokens = random_tokens();
  const Transformer model(model_spec(config, kVocab));
  Session session(model, session_options(config));
  LoaderOptions loading = loader_options(config);
  loading.num_threads = 0;
  TrainLoader loader(tokens, loading);
  StepBenchResult result;
  OpProfiler profiler(result.ledger);
  std::vector<double> times;
  for (int64_t step = 0; step < kWarmupSteps + steps; ++step) {
    if (profile && step == kWarmupSteps) {
      session.context().ledger = &result.ledger;
      session.context().observer = &profiler;
    }
    const auto start = std::chrono::steady_clock::now();
    const StepBatch batch = loader.next();
    session.begin_step(step, 1e-3f, batch.num_targets);
    for (const MicroBatch& micro : batch.micro) session.train_micro(micro);
    session.end_step();
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    if (step >= kWarmupSteps) times.push_back(elapsed.count());
  }
  std::sort(times.begin(), times.end());
  result.median_ms = times[times.size() / 2];
  result.fastest_ms = times.front();
  result.tokens_per_second = double(config.training.batch_size * config.model.context) / result.median_ms * 1e3;
  return result;
}

}  // namespace gradmill
