// SPDX-License-Identifier: Apache-2.0
// What a RunConfig means to the parts of a run.
#pragma once

#include "config/run_config.h"
#include "data/corpus.h"
#include "data/loader.h"
#include "models/transformer.h"
#include "optim/schedule.h"
#include "train/sampler.h"
#include "train/session.h"

namespace gradmill {

// Throws a usage error for sizes that do not fit together.
TransformerSpec model_spec(const RunConfig& config, int64_t vocab);
SessionOptions session_options(const RunConfig& config);
CorpusOptions corpus_options(const RunConfig& config);
LoaderOptions loader_options(const RunConfig& config);
SamplerOptions sampler_options(const RunConfig& config);

// An epoch is as many steps as it takes to read as many tokens as there are.
struct RunLength {
  int64_t steps_per_epoch = 1;
  int64_t total_steps = 0;

  double epoch_of(int64_t step) const { return double(step) / double(steps_per_epoch); }
  int64_t num_epochs() const { return (total_steps + steps_per_epoch - 1) / steps_per_epoch; }
};
RunLength run_length(const RunConfig& config, int64_t train_tokens);

Schedule make_schedule(const RunConfig& config, int64_t total_steps);

}  // namespace gradmill
