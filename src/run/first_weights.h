// SPDX-License-Identifier: Apache-2.0
// Loads the weights that a model starts with: those of its files, and those of adapters.
#pragma once

#include <functional>
#include <string>

#include "run/run_model.h"
#include "session/session.h"

namespace gradmill {

// Parameters that the files do not have, such as a new head, keep their random weights; `note` gets their names.
// `network` is the model's own, or one with the same parameters.
void load_first_weights(const RunModel& model, const Transformer& network, Session& session,
                        const std::function<void(const std::string&)>& note);

}  // namespace gradmill
