// SPDX-License-Identifier: Apache-2.0
// The report of a run at its start.
#pragma once

#include <string>
#include <vector>

#include "metrics/progress.h"
#include "train/trainer.h"

namespace gradmill {

// Data, model, memory, length and folder, one line each.
std::string run_header(Trainer& trainer, const RunConfig& config, const std::string& folder);
// Each optimisation: active, or inactive with the reason.
std::vector<Feature> run_features(const RunConfig& config);
// The settings that differ from the defaults, for TensorBoard's hparams.
Hparams run_hparams(const RunConfig& config);

}  // namespace gradmill
