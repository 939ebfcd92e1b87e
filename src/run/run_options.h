// SPDX-License-Identifier: Apache-2.0
// Turns a RunConfig into options for the parts of a run.
#pragma once

#include "config/run_config.h"
#include "data/characters/corpus.h"
#include "data/characters/loader.h"
#include "data/tokens/packed_loader.h"
#include "models/transformer.h"
#include "optim/schedule.h"
#include "session/sampler.h"
#include "session/session_options.h"

namespace gradmill {

// The spec of the model that the settings describe. Throws a usage error for sizes that do not fit together.
TransformerSpec model_spec(const RunConfig& config, int64_t vocab);
// eval.batch_size, or a default derived from the sequences of a training micro-batch.
int64_t eval_batch_size(const RunConfig& config, int64_t train_seqs);
// The batch sizes as far as the settings determine them; RunData::shape completes them.
BatchShape batch_shape(const RunConfig& config, int64_t num_ranks = 1);
SessionOptions session_options(const RunConfig& config);
SessionOptions session_options(const RunConfig& config, const BatchShape& shape);
CorpusOptions corpus_options(const RunConfig& config);
// data.num_workers, with `auto` replaced by a number.
int num_loader_threads(const DataConfig& config);
LoaderOptions loader_options(const RunConfig& config);
// For tokens: how they are cut into rows, and how rows are loaded.
PackOptions pack_options(const RunConfig& config);
PackedLoaderOptions packed_loader_options(const RunConfig& config);
SamplerOptions sampler_options(const RunConfig& config);

struct RunLength {
  int64_t steps_per_epoch = 1;
  int64_t total_steps = 0;

  double epoch_of(int64_t step) const { return double(step) / double(steps_per_epoch); }
  int64_t num_epochs() const { return (total_steps + steps_per_epoch - 1) / steps_per_epoch; }
};
// If the length of an epoch is not known, it is 0 steps, and the whole run counts as one epoch.
RunLength run_length(const RunConfig& config, int64_t steps_per_epoch);

Schedule make_schedule(const RunConfig& config, int64_t total_steps);

}  // namespace gradmill
