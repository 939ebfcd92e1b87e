// SPDX-License-Identifier: Apache-2.0
// What of a run's model are adapters: new ones as the settings say, or those of a folder that PEFT or an export made.
#pragma once

#include "run/run_model.h"
#include "session/session.h"

namespace gradmill {

// The plan for them, and what tells their base from others.
void add_adapters(RunModel& model, const RunConfig& config);
// The values of model.adapter_folder, which has all that trains.
void load_adapters(const RunModel& described, const Transformer& model, Session& session);

}  // namespace gradmill
