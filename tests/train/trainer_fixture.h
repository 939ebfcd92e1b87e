// SPDX-License-Identifier: Apache-2.0
// Small training runs for tests: a text that is learnt in a second, a recorder, a store, and a stop at any step.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_folder.h"
#include "support/op_test.h"
#include "train/trainer.h"

namespace gradmill::test {

struct Recorder : MetricsSink {
  void step(const StepMetrics& metrics) override { steps.push_back(metrics); }
  void eval(const EvalMetrics& metrics) override { evals.push_back(metrics); }
  void epoch(const EpochMetrics& metrics) override { epochs.push_back(metrics); }
  void rewind(int64_t step) override { rewinds.push_back(step); }
  void checkpoint(int64_t step, const std::string&) override { checkpoints.push_back(step); }
  void text(int64_t, std::string_view tag, std::string_view) override { tags.emplace_back(tag); }
  void finish(const RunSummary& what) override { summary = what; }

  std::vector<double> losses() const {
    std::vector<double> values;
    for (const StepMetrics& metrics : steps) values.push_back(metrics.loss);
    return values;
  }

  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
  std::vector<EpochMetrics> epochs;
  std::vector<int64_t> rewinds, checkpoints;
  std::vector<std::string> tags;  // of texts
  RunSummary summary;
};

// Runs in a temporary folder, on a text that a tiny model learns in a second.
class TrainerTest : public testing::Test {
 protected:
  TrainerTest() {
    std::ofstream file(folder_.path() / "text.txt");
    for (int i = 0; i < 400; ++i) file << "the miller grinds, the mill turns.\n";
    file.close();
    config_.data.dataset = (folder_.path() / "text.txt").string();
    config_.model.layers = 2;
    config_.model.heads = 2;
    config_.model.width = 32;
    config_.model.context = 16;
    config_.model.dropout = 0.1;
    config_.training.batch_size = 8;
    config_.training.steps = 60;
    config_.schedule.warmup_steps = 5;
    config_.optimizer.lr = 1e-2;
    config_.eval.every_steps = 25;
    config_.eval.tokens = 400;
    config_.sample.tokens = 40;
    config_.machine.device = "cpu";
    config_.machine.threads = 2;
  }

  // A trainer with a store in `run`, a recorder, and a stop after `stop_after` steps (0: never).
  struct Run {
    Recorder recorder;
    std::vector<std::string> notes;
    TrainOutcome outcome;
    std::vector<float> weights;
  };
  Run run(const std::string& name, bool resume = false, int64_t stop_after = 0) {
    Run result;
    const std::filesystem::path run_folder = folder_.path() / name;
    std::filesystem::create_directories(run_folder);
    CheckpointStore store(run_folder);
    Trainer trainer(config_, open_run(config_));
    trainer.attach(
        {.metrics = &result.recorder,
         .store = &store,
         .stop_requested =
             [&] { return stop_after > 0 && static_cast<int64_t>(result.recorder.steps.size()) >= stop_after; },
         .note = [&](const std::string& line) { result.notes.push_back(line); },
         .prune = prune_});
    if (resume) trainer.resume(store.newest().value());
    result.outcome = trainer.run();
    const TensorView flat = trainer.session().weights().flat_master();
    result.weights.assign(flat.ptr<float>(), flat.ptr<float>() + flat.numel());
    return result;
  }

  TemporaryFolder folder_;
  RunConfig config_;
  std::function<bool(const EvalMetrics&)> prune_ = TrainServices{}.prune;
};

}  // namespace gradmill::test
