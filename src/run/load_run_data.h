// SPDX-License-Identifier: Apache-2.0
// Opening the data that the settings name, whatever kind it is.
#pragma once

#include <memory>

#include "run/run_data.h"

namespace gradmill {

// Characters of data.dataset, or tokens of data.path: from shards, which are made where they are not in the cache, or
// streamed. Throws what the parts throw.
std::unique_ptr<RunData> load_run_data(const RunConfig& config, const RunDataOptions& options = {});

// What a plan needs to know, after a look whether the data is there. Nothing is written, and only labelled data
// tokenised.
struct CheckedData {
  int64_t vocab = 0;
  Task task = {};
  BatchShape shape;
};
CheckedData check_run_data(const RunConfig& config);

}  // namespace gradmill
