// SPDX-License-Identifier: Apache-2.0
// What a run says about itself at its start.
#pragma once

#include <string>
#include <vector>

#include "metrics/progress.h"
#include "train/trainer.h"

namespace gradmill {

// Data, model, memory, length and folder, a line each.
std::string run_header(Trainer& trainer, const RunConfig& config, const std::string& folder);
// Each optimisation as active, or inactive with the reason.
std::vector<Feature> run_features(const RunConfig& config);
// The settings that differ from the defaults, for TensorBoard's hparams.
Hparams run_hparams(const RunConfig& config);

}  // namespace gradmill
