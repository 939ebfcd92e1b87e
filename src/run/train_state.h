// SPDX-License-Identifier: Apache-2.0
// TrainState: the state of a run besides its weights and moments. It is small and saved with every checkpoint.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace gradmill {

struct TrainState {
  int64_t step = 0;      // steps done; also the position of the sampler and the RNG
  uint32_t updates = 0;  // optimiser updates, without skipped steps
  float loss_scale = 1;  // for fp16: the scale at the start of the next step
  uint32_t scale_streak = 0;
  uint64_t tokens_seen = 0;
  int64_t scale_skips = 0;  // updates skipped because of fp16 overflows
  double loss_total = 0;    // sum over the finite steps, for the run's mean
  int64_t finite_steps = 0;
  // Early stopping and the best checkpoint.
  double best_loss = std::numeric_limits<double>::infinity();
  std::optional<double> best_value;  // of eval.metric, if that is not the loss
  int64_t best_step = 0;
  int64_t evals_since_best = 0;
  bool stopped_early = false;
  bool pruned = false;  // ended after an evaluation, by whoever compares it with other runs
  // Bad steps and roll-backs.
  double running_loss = 0;  // exponential mean; 0 before the first step
  int64_t bad_steps = 0;    // in a row
  int64_t rollbacks = 0;
  double lr_factor = 1;
  // The current epoch, for its report.
  double epoch_loss_total = 0;
  int64_t epoch_steps = 0;
  // What the run was started with.
  uint64_t seed = 0;
  std::string data_hash;
  std::string vocabulary;      // the characters, in order; empty if the checkpoint has a tokenizer's files
  std::string tokenizer_hash;  // hash of those files
  std::string data_place;      // DataPosition::place of the next step
  std::string base_hash;       // hash of the files of the adapters' base; empty without adapters
  std::string task;            // data.task; empty for running text
  std::vector<std::string> labels;
  std::optional<double> threshold;  // for two classes, tuned at the end
};

std::string to_json(const TrainState& state);
// Throws a data error if the text is not a state.
TrainState state_from_json(const std::string& text);

}  // namespace gradmill
