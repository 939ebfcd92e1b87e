// SPDX-License-Identifier: Apache-2.0
// Describes a labelled set as text for a terminal.
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
  int64_t max_length = 0;                      // in tokens; longer sequences are truncated and counted
  int64_t num_samples = 2;
  int width = 80;
};

// Counts, label balance, lengths, and sample sequences as a model reads them. Throws the errors of read_labelled.
std::string inspect_labelled(const InspectLabelledOptions& options);

}  // namespace gradmill
