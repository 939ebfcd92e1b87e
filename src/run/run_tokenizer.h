// SPDX-License-Identifier: Apache-2.0
// RunTokenizer: what a run reads and writes text with, and the files that keep it in checkpoints.
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

// Of characters there are no files: a checkpoint's state has them.
struct RunTokenizer : CorpusTokenizer {
  std::string characters;                // every one of them, in order; empty for all other tokenizers
  std::vector<CheckpointText> files;     // under the names that load_tokenizer and Hugging Face's libraries look for
  std::filesystem::path folder;          // where the files come from; empty where they come from nowhere
  std::shared_ptr<const void> unpacked;  // keeps a folder that was made for files out of a .gguf

  bool is_chars() const { return !characters.empty(); }
};

RunTokenizer char_run_tokenizer(std::string_view text);
// `name` is "byte", a path as load_tokenizer takes it, or a .gguf file. Files that belong to a tokenizer (its settings,
// its chat template) are taken from the same folder. The hash is of what is in the files, wherever they are.
RunTokenizer open_run_tokenizer(const std::string& name);

// data.tokenizer, or the one that comes with model.path.
const std::string& tokenizer_name(const RunConfig& config);

// What ends a document with these settings, if anything does. Throws a usage_error for a token that is not there.
std::optional<TokenId> end_of_text(const RunTokenizer& tokenizer, const DataConfig& config);
// A line break, or else any token: a text's beginning, for a sample.
std::vector<TokenId> text_prompt(const RunTokenizer& tokenizer);

}  // namespace gradmill
