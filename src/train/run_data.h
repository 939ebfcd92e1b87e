// SPDX-License-Identifier: Apache-2.0
// The text of a run, as characters, as tokens, and as a hash that tells whether it is still the same.
#pragma once

#include "config/run_config.h"
#include "data/char_vocab.h"
#include "data/corpus.h"
#include "data/token_split.h"

namespace gradmill {

struct RunData {
  std::string name, origin;
  std::string hash;  // SHA-256 of the text used
  CharVocab vocab;
  TokenSplit tokens;
};

// `vocab`, if given, is the one a model was trained with: other characters are an error.
RunData load_run_data(const RunConfig& config, const CharVocab* vocab = nullptr);

}  // namespace gradmill
