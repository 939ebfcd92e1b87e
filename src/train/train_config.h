// SPDX-License-Identifier: Apache-2.0
// The settings of a training run, with the defaults of `gradmill train`: a character model that learns in a minute or
// two on two cores.
#pragma once

#include <cstdint>
#include <string>

#include "data/corpus.h"
#include "models/transformer.h"
#include "optim/schedule.h"
#include "train/session.h"

namespace gradmill {

struct TrainConfig {
  // Data.
  CorpusOptions corpus;
  double validation_fraction = 0.1;
  int loader_threads = 1;

  // Model.
  std::string style = "gpt2";  // gpt2 or qwen3
  int64_t layers = 4, heads = 4, kv_heads = 0, width = 128;
  int64_t mlp_width = 0;       // 0: four times the width (gpt2), 8/3 rounded up to 32 (qwen3)
  int64_t context = 64;
  double dropout = 0;
  bool tied = true;

  // Training.
  int64_t batch_size = 12;
  int64_t micro_batch_size = 0;  // 0: the batch at once
  int64_t steps = 2000;
  double lr = 1e-3, min_lr = 1e-4;
  int64_t warmup_steps = 100;
  AdamWOptions adamw;
  uint64_t seed = 1337;

  // Evaluation and sampling.
  int64_t eval_interval = 250;   // steps; 0: only at the end
  int64_t eval_tokens = 16384;   // of an evaluation inside the run; the last one reads the whole split
  int64_t log_interval = 50;
  int64_t sample_tokens = 500;
  double temperature = 0.8;
  int64_t top_k = 0;             // 0: all

  // Machine.
  std::string device = "cpu";
  int num_threads = 0;           // 0: every core
  std::string dtype = "fp32";
  std::string save_policy = "none";

  // Throws a usage error that names the first setting out of range.
  void check() const;
};

TransformerSpec model_spec(const TrainConfig& config, int64_t vocab);
SessionOptions session_options(const TrainConfig& config);
CosineSchedule schedule(const TrainConfig& config);

}  // namespace gradmill
