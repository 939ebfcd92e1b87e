// SPDX-License-Identifier: Apache-2.0
// RunTokenizer: a run's tokenizer, and the files that store it in checkpoints.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_text.h"
#include "config/run_config.h"
#include "data/tokens/corpus_tokenizer.h"

namespace gradmill {

// A character tokenizer has no files: a checkpoint's state has the characters.
struct RunTokenizer : CorpusTokenizer {
  std::string characters;                // all characters in order; empty for other tokenizers
  std::vector<CheckpointText> files;     // with the names that load_tokenizer and Hugging Face's libraries expect
  std::filesystem::path folder;          // where the files come from; empty if there are none
  std::shared_ptr<const void> unpacked;  // keeps the temporary folder for files from a .gguf

  bool is_chars() const { return !characters.empty(); }
};

RunTokenizer char_run_tokenizer(std::string_view text);
// `name` is "byte", a path for load_tokenizer, or a .gguf file. Other files of the tokenizer (its settings, its chat
// template) are read from the same folder. The hash depends on the contents of the files, not on where they are.
RunTokenizer open_run_tokenizer(const std::string& name);

// data.tokenizer, or the tokenizer of model.path.
const std::string& tokenizer_name(const RunConfig& config);

// The token that ends a document with these settings, if there is one. Throws a usage_error for an unknown token.
std::optional<TokenId> end_of_text(const RunTokenizer& tokenizer, const DataConfig& config);
// The prompt of a sample: a line break, or another token if there is none.
std::vector<TokenId> text_prompt(const RunTokenizer& tokenizer);

}  // namespace gradmill
