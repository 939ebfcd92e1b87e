// SPDX-License-Identifier: Apache-2.0
// Statistics of a labelled set, as numbers and as text for a terminal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/labelled/encoded_set.h"
#include "data/labelled/labelled_set.h"

namespace gradmill {

struct LengthBin {
  int64_t first = 0, last = 0;  // in tokens, both included
  int64_t count = 0;
};

struct LabelledSummary {
  int64_t num_examples = 0, num_unlabelled = 0, num_groups = 0, num_skipped = 0;
  int64_t num_empty = 0;  // examples whose texts are blank
  bool pairs = false, regression = false;
  std::vector<std::string> label_names;
  std::vector<int64_t> label_counts;                                             // by class
  double target_min = 0, target_max = 0, target_mean = 0, target_deviation = 0;  // regression only

  // Lengths of whole sequences before truncation. 0 and empty if the set was not encoded.
  int64_t total_tokens = 0, shortest = 0, longest = 0, median = 0, percentile_95 = 0;
  std::vector<LengthBin> lengths;
  int64_t max_length = 0;  // 0: no limit
  int64_t num_cut = 0;     // examples that are longer
};

// Summarises the examples with these indices. `encoded` may be null; otherwise it must belong to this set.
LabelledSummary summarize(const LabelledSet& set, std::span<const int32_t> examples, const EncodedSet* encoded);
LabelledSummary summarize(const LabelledSet& set, const EncodedSet* encoded);

// Several lines with bar charts; each line ends with a line feed. Long label names are shortened, and of many labels
// only the largest are shown.
std::string describe(const LabelledSummary& summary);

}  // namespace gradmill
