// SPDX-License-Identifier: Apache-2.0
// Converts labels from their spelling in files, once all of them are known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/labelled/labelled_set.h"

namespace gradmill {

// The reason why an example cannot be used.
struct LabelProblem {
  int64_t example = 0;
  bool missing = false;  // the label is missing, not wrong
  std::string what;
};

// Sets `regression`, `labels`, and the label or target of every example from `raw`, the spellings in the file (empty:
// none). Returns the examples that cannot be used. Throws a data_error if words and numbers are mixed, and for too many
// classes.
std::vector<LabelProblem> resolve_labels(LabelledSet& set, const std::vector<std::string>& raw,
                                         const LabelledOptions& options);

}  // namespace gradmill
