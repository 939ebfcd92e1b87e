// SPDX-License-Identifier: Apache-2.0
#include "train/step_bench.h"

#include <algorithm>
#include <chrono>

#include "core/rng.h"
#include "data/loader.h"

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

TrainConfig bench_case(const std::string& name) {
  TrainConfig config;
  if (name == "nano") return config;
  if (name != "char") throw usage_error(fmt::format("unknown case '{}'", name), "choose one of: nano, char");
  config.layers = config.heads = 6;
  config.width = 384;
  config.context = 256;
  config.batch_size = 16;
  return config;
}

StepBenchResult bench_steps(const TrainConfig& config, int64_t steps, bool profile) {
  config.check();
  const std::vector<int32_t> tokens = random_tokens();
  const Transformer model(model_spec(config, kVocab));
  Session session(model, session_options(config));
  TrainLoader loader(tokens, {.batch_size = config.batch_size, .micro_batch_size = config.micro_batch_size,
                              .context = config.context, .seed = config.seed, .num_threads = 0});
  StepBenchResult result;
  std::vector<double> times;
  for (int64_t step = 0; step < kWarmupSteps + steps; ++step) {
    if (profile && step == kWarmupSteps) session.context().ledger = &result.ledger;
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
  result.tokens_per_second = double(config.batch_size * config.context) / result.median_ms * 1e3;
  return result;
}

}  // namespace gradmill
