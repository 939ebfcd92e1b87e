// SPDX-License-Identifier: Apache-2.0
// Fits a run into less memory: plans it in every way that saves memory, and picks the fastest on paper that fits.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "run/load_run_data.h"

namespace gradmill {

struct FitChoice {
  std::string settings;     // settings to add to the command; empty: the run as it is
  size_t bytes = 0;         // for the whole run, as MemoryPlan::total_bytes
  double step_seconds = 0;  // roofline time of a whole step
  int narrowing = 0;        // how far frozen weights are quantised; this changes results, so it is tried last
};

// Combines smaller micro-batches, recomputed activations and, with adapters, narrower frozen weights, for all settings
// that may be changed. `check_data` returns the data's sizes for a config, like check_run_data. The first choice is the
// run as it is.
std::vector<FitChoice> fit_choices(
    const RunConfig& config, const std::function<CheckedData(const RunConfig&)>& check_data,
    const std::function<bool(const std::string&)>& may_change = [](const std::string&) { return true; });

// The fastest choice among those that quantise least, or null if none fits. Among equally fast choices it is the first,
// which changes least.
const FitChoice* fastest_fit(std::span<const FitChoice> choices, size_t memory_bytes);

// One line per size, in GiB.
std::string describe_fits(std::span<const FitChoice> choices, std::span<const double> sizes);

}  // namespace gradmill
