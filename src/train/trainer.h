// SPDX-License-Identifier: Apache-2.0
// The training loop: load, step, evaluate, report; a sample at the end.
#pragma once

#include <string>

#include "data/char_vocab.h"
#include "data/loader.h"
#include "data/token_split.h"
#include "train/train_config.h"

namespace gradmill {

struct StepReport {
  int64_t step = 0;  // that just ended, counted from 1
  double loss = 0;   // mean over the step's targets
  float lr = 0, grad_norm = 0;
  bool finite = true;
  double seconds = 0;
  int64_t tokens = 0;
};

struct EvalReport {
  int64_t step = 0;
  double loss = 0;
  int64_t tokens = 0;
  double seconds = 0;
};

struct RunInfo {
  const TrainConfig& config;
  const Corpus& corpus;
  const Transformer& model;
  const MemoryPlan& plan;
  int num_threads;
  int64_t train_tokens, validation_tokens;
};

// Watches a run. Metrics files, progress bars and tests are observers.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void on_start(const RunInfo&) {}
  virtual void on_step(const StepReport&) {}
  virtual void on_eval(const EvalReport&) {}
  virtual void on_sample(const std::string&) {}
};

struct TrainSummary {
  double train_loss = 0;       // of the last step
  double validation_loss = 0;  // over the whole validation split
  std::string sample;
};

class Trainer {
 public:
  Trainer(const TrainConfig& config, TrainObserver& observer);

  TrainSummary run();

  Session& session() { return session_; }

 private:
  StepReport train_step(const StepBatch& batch);
  EvalReport evaluate(int64_t step, int64_t max_tokens);
  std::string sample();
  void stop_if_diverged(const StepReport& report);

  TrainConfig config_;
  TrainObserver& observer_;
  Corpus corpus_;
  CharVocab vocab_;
  TokenSplit tokens_;
  Transformer model_;
  Session session_;
  CosineSchedule schedule_;
  int64_t steps_not_finite_ = 0;
};

}  // namespace gradmill
