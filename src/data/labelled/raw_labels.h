// SPDX-License-Identifier: Apache-2.0
// Labels as they stand in files, and what they mean once all of them are known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/labelled/labelled_set.h"

namespace gradmill {

// Why an example cannot be used.
struct LabelProblem {
  int64_t example = 0;
  bool missing = false;  // no label, rather than a wrong one
  std::string what;
};

// Sets `regression`, `labels` and every example's label or target from `raw`, its text in the file (empty: none), and
// returns the examples that cannot be used. Throws a data_error where words and numbers are mixed, and for too many
// classes.
std::vector<LabelProblem> resolve_labels(LabelledSet& set, const std::vector<std::string>& raw,
                                         const LabelledOptions& options);

}  // namespace gradmill
