// SPDX-License-Identifier: Apache-2.0
// Presets: settings under which a run fits a GPU, chosen on paper before anything starts, with the reason in words.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/loader.h"
#include "run/load_run_data.h"

namespace gradmill {

struct Preset {
  std::vector<std::string> settings;  // "machine.save_policy=cheap"; empty: the run fits as it is
  std::string reason;                 // one line
};

// `name` is auto (the run's own device), a GPU of the catalogue, or so many GiB ("12", "12GB"). The batch of a step
// stays what it is, and so does every setting that somebody chose in a file or on the command line; of what remains,
// the fastest on paper that fits. Throws an out-of-memory error when nothing does.
Preset choose_preset(const LoadedConfig& config, const std::string& name,
                     const std::function<CheckedData(const RunConfig&)>& look);

}  // namespace gradmill
