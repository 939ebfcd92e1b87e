// SPDX-License-Identifier: Apache-2.0
// What a labelled set holds, as text for a terminal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/labelled/labelled_set.h"
#include "tokenizer/tokenizer.h"

namespace gradmill {

struct InspectLabelledOptions {
  std::vector<SourceFile> files;
  BadRecordPolicy bad_records = BadRecordPolicy::error;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: examples are not tokenised
  int64_t max_length = 0;                      // tokens of a sequence; longer ones are cut, and counted
  int64_t num_samples = 2;
  int width = 80;
};

// Counts, label balance, lengths, and samples as a model reads them. Throws as read_labelled.
std::string inspect_labelled(const InspectLabelledOptions& options);

}  // namespace gradmill
