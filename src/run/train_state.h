// SPDX-License-Identifier: Apache-2.0
// TrainState: where a run stands, beside its weights and moments. Small, and saved with every checkpoint.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace gradmill {

struct TrainState {
  int64_t step = 0;      // steps done; also the sampler's and the RNG's position
  uint32_t updates = 0;  // optimiser updates: steps without the skipped ones
  float loss_scale = 1;  // fp16's, as the next step starts with it
  uint32_t scale_streak = 0;
  uint64_t tokens_seen = 0;
  int64_t scale_skips = 0;  // updates that fp16 overflows cost
  double loss_total = 0;    // over the finite steps, for the run's mean
  int64_t finite_steps = 0;
  // Early stopping and the best checkpoint.
  double best_loss = std::numeric_limits<double>::infinity();
  std::optional<double> best_value;  // of the metric the run is judged by, where that is not the loss
  int64_t best_step = 0;
  int64_t evals_since_best = 0;
  bool stopped_early = false;
  // Bad steps and roll-backs.
  double running_loss = 0;  // exponential mean; 0 before the first step
  int64_t bad_steps = 0;    // in a row
  int64_t rollbacks = 0;
  double lr_factor = 1;
  // The current epoch, for its report.
  double epoch_loss_total = 0;
  int64_t epoch_steps = 0;
  // What the run was made of.
  uint64_t seed = 0;
  std::string data_hash;
  std::string vocabulary;      // the characters, in order; empty where the checkpoint has a tokenizer's files
  std::string tokenizer_hash;  // of those files
  std::string data_place;      // DataPosition::place of the next step
  std::string base_hash;       // of the files that adapters belong to; empty without adapters
  std::string task;            // data.task, where that is not running text
  std::vector<std::string> labels;
  std::optional<double> threshold;  // of two classes, tuned at the end
};

std::string to_json(const TrainState& state);
// Throws a data error for what is not a state.
TrainState state_from_json(const std::string& text);

}  // namespace gradmill
