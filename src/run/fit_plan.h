// SPDX-License-Identifier: Apache-2.0
// How a run fits into less memory: its plan with every way to save some, and of those that fit the fastest on paper.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "run/load_run_data.h"

namespace gradmill {

struct FitChoice {
  std::string settings;     // to add to the command; empty: the run as it is
  size_t bytes = 0;         // of the whole run, as MemoryPlan::total_bytes
  double step_seconds = 0;  // of a whole step, by its roofline
  int narrowing = 0;        // of frozen weights: results change, so it is the last thing to try
};

// Smaller micro-batches, activations computed again, and narrower frozen weights where there are adapters, in every
// combination of settings that may be changed. `look` gives the data's sizes for a config, as check_run_data does. The
// first is the run as it is.
std::vector<FitChoice> fit_choices(
    const RunConfig& config, const std::function<CheckedData(const RunConfig&)>& look,
    const std::function<bool(const std::string&)>& may_change = [](const std::string&) { return true; });

// The fastest of those that narrow least. Null when none fits. Of equally fast ones the first, which changes least.
const FitChoice* fastest_fit(std::span<const FitChoice> choices, size_t memory_bytes);

// A line for each size, in GiB.
std::string describe_fits(std::span<const FitChoice> choices, std::span<const double> sizes);

}  // namespace gradmill
