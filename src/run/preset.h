// SPDX-License-Identifier: Apache-2.0
// Presets: settings with which a run fits a GPU, chosen on paper before the run starts, with the reason in words.
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

// `name` is auto (the run's own device), a GPU of the catalogue, or a number of GiB ("12", "12GB"). The batch of a step
// does not change, nor does any setting that the user chose in a file or on the command line. Returns the fastest of
// the remaining choices that fits, on paper. Throws an out-of-memory error if none does.
Preset choose_preset(const LoadedConfig& config, const std::string& name,
                     const std::function<CheckedData(const RunConfig&)>& check_data);

}  // namespace gradmill
