// SPDX-License-Identifier: Apache-2.0
// Opens the data that the settings name, of any kind.
#pragma once

#include <memory>

#include "run/run_data.h"

namespace gradmill {

// Characters of data.dataset, or tokens of data.path. Tokens come from shards, which are made if they are not in the
// cache, or are streamed. Throws what the parts throw.
std::unique_ptr<RunData> load_run_data(const RunConfig& config, const RunDataOptions& options = {});

// What a plan needs to know about the data. Also checks that the data exists. Writes nothing, and tokenises only
// labelled data.
struct CheckedData {
  int64_t vocab = 0;
  Task task = {};
  BatchShape shape;
};
CheckedData check_run_data(const RunConfig& config);

}  // namespace gradmill
