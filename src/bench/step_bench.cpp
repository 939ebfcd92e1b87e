// SPDX-License-Identifier: Apache-2.0
#include "bench/step_bench.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "core/rng.h"
#include "run/run_model.h"
#include "run/run_options.h"

namespace gradmill {
namespace {

using Clock = std::chrono::steady_clock;
const Clock::time_point kProcessStart = Clock::now();

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

constexpr int64_t kTokens = 1'000'000, kWarmupSteps = 5;

const std::vector<BenchCase>& cases() {
  static const std::vector<std::string> kQwen = {"model.style=qwen3",  "model.heads=12",       "model.kv_heads=4",
                                                 "model.layers=24",    "model.width=768",      "model.mlp_width=2048",
                                                 "model.context=2048", "training.batch_size=8"};
  static const std::vector<BenchCase> kCases = {
      {"nano", 65, {"machine.device=cpu"}},
      {"char",
       65,
       {"machine.device=cpu", "model.layers=6", "model.heads=6", "model.width=384", "model.context=256",
        "training.batch_size=16"}},
      {"char-gpu",
       65,
       {"model.layers=6", "model.heads=6", "model.width=384", "model.context=256", "model.dropout=0.2",
        "model.bias=false", "training.batch_size=64"}},
      {"176m", 32768, kQwen},
      {"gpt2-124m",
       50304,
       {"model.layers=12", "model.heads=12", "model.width=768", "model.context=1024", "training.batch_size=64"}},
      {"llama-1b",
       32768,
       {"model.style=qwen3", "model.layers=22", "model.heads=32", "model.kv_heads=4", "model.width=2048",
        "model.mlp_width=5632", "model.context=2048", "training.batch_size=16"}},
      {"qwen2.5-0.5b",
       151936,
       {"model.style=qwen2", "model.layers=24", "model.heads=14", "model.kv_heads=2", "model.width=896",
        "model.mlp_width=4864", "model.context=1024", "training.batch_size=128", "training.micro_batch_size=32"}},
  };
  return kCases;
}

std::vector<int32_t> random_tokens(int64_t vocab) {
  std::vector<int32_t> tokens(kTokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(philox(0, {static_cast<uint32_t>(i), 0, 0, 0})[0] % static_cast<uint32_t>(vocab));
  }
  return tokens;
}

// Sequences with labels instead of next tokens.
void set_labels(StepBatch& batch, const Task& task) {
  if (task.predicts_tokens()) return;
  batch.num_tokens = batch.num_targets;
  batch.num_targets = 0;
  for (MicroBatch& micro : batch.micro) {
    micro.targets.assign(micro.cu_seqlens.size() - 1, 0);
    for (size_t s = 0; s < micro.targets.size(); s += 2) micro.targets[s] = task.num_outputs() > 1 ? 1 : 0;
    micro.num_targets = micro.num_seqs;
    batch.num_targets += micro.num_seqs;
  }
}

// Submits each step before it reads the result of the one before, as training does, and records when each step ended.
class StepTimer {
 public:
  StepTimer(Session& session, TrainLoader& loader, const Task& task)
      : session_(session), loader_(loader), task_(task) {}

  void submit(int64_t step) {
    StepBatch batch = loader_.next();
    set_labels(batch, task_);
    session_.begin_step(step, 1e-3f, batch.num_targets);
    for (const MicroBatch& micro : batch.micro) session_.train_micro(micro);
    pending_.push_back(session_.submit_step());
    targets_ = batch.num_targets;
  }
  void finish() {
    const Session::StepResult result = session_.wait(pending_.front());
    pending_.erase(pending_.begin());
    ends.push_back(Clock::now());
    losses.push_back(result.loss_sum / double(targets_));
    grad_norms.push_back(double(result.grad_norm));
  }
  size_t pending() const { return pending_.size(); }

  std::vector<Clock::time_point> ends;
  std::vector<double> losses, grad_norms;

 private:
  Session& session_;
  TrainLoader& loader_;
  const Task& task_;
  std::vector<Runtime::Read> pending_;
  int64_t targets_ = 1;
};

}  // namespace

const BenchCase& bench_case(const std::string& name) {
  std::string known;
  for (const BenchCase& one : cases()) {
    if (one.name == name) return one;
    known += (known.empty() ? "" : ", ") + one.name;
  }
  throw usage_error(fmt::format("unknown case '{}'", name), "choose one of: " + known);
}

std::vector<std::string> bench_case_names() {
  std::vector<std::string> names;
  for (const BenchCase& one : cases()) names.push_back(one.name);
  return names;
}

StepBenchResult bench_steps(const RunConfig& config, int64_t vocab, const StepBenchOptions& bench) {
  const int64_t steps = bench.steps;
  const Task task = task_without_data(config);
  const RunModel model = open_run_model(config, task, vocab);
  const std::vector<int32_t> tokens = random_tokens(model.spec().vocab);
  StepBenchResult result;
  SessionOptions options = session_options(config);
  options.note = [&](const std::string& line) { result.notes.push_back(line); };
  bench.adjust(options);
  result.ledger = Ledger(bench.by_shape);
  Session session(*model.network, options);
  LoaderOptions loading = loader_options(config);
  if (options.device.kind == DeviceKind::cpu) loading.num_threads = 0;
  TrainLoader loader(tokens, loading);
  StepTimer timer(session, loader, task);
  const size_t ahead = options.device.kind == DeviceKind::cpu ? 0 : 1;
  // Nothing is submitted after the last step, so its result would arrive too early: submit one more, which is not
  // counted.
  const int64_t extra = bench.profile ? 0 : static_cast<int64_t>(ahead);
  for (int64_t step = 0; step < kWarmupSteps + steps + extra; ++step) {
    if (bench.profile && step == kWarmupSteps) session.profile(result.ledger);
    timer.submit(step);
    // The first step is completed alone, because the time until its end is one of the results.
    while (timer.pending() > (step == 0 ? 0 : ahead)) timer.finish();
  }
  while (timer.pending() > 0) timer.finish();
  session.stop_profile();
  std::vector<double> times;
  const size_t end = timer.ends.size() - static_cast<size_t>(extra);
  for (size_t i = end - static_cast<size_t>(steps); i < end; ++i) {
    times.push_back(seconds_between(timer.ends[i - 1], timer.ends[i]) * 1e3);
  }
  std::sort(times.begin(), times.end());
  result.median_ms = times[times.size() / 2];
  result.fastest_ms = times.front();
  result.slowest_ms = times.back();
  result.tokens_per_second = double(config.training.batch_size * config.model.context) / result.median_ms * 1e3;
  result.first_step_s = seconds_between(kProcessStart, timer.ends.front());
  result.loss = timer.losses.back();
  result.mean_loss = std::accumulate(timer.losses.end() - steps, timer.losses.end(), 0.0) / double(steps);
  result.first_grad_norm = timer.grad_norms.front();
  result.memory_bytes = session.memory_plan().slab_bytes() + session.library_bytes();
  result.driver_bytes = session.driver_bytes();
  return result;
}

}  // namespace gradmill
