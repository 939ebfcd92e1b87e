// SPDX-License-Identifier: Apache-2.0
// Loads the weights that a model starts with: those of its files, and those of adapters.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "run/run_model.h"
#include "session/session.h"

namespace gradmill {

// Which weights are read from files. After Session::reset the frozen ones are still there.
enum class FirstWeights : uint8_t { all, trained };
// Parameters that the files do not have, such as a new head, keep their random weights; `note` gets their names.
// `network` is the model's own, or one with the same parameters. Frozen weights shared with another session are not
// read again.
void load_first_weights(const RunModel& model, const Transformer& network, Session& session,
                        const std::function<void(const std::string&)>& note, FirstWeights which = FirstWeights::all);

}  // namespace gradmill
