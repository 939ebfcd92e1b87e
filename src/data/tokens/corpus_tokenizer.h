// SPDX-License-Identifier: Apache-2.0
// CorpusTokenizer: a tokenizer for data sets, with its hash and the token that ends a document.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "data/tokens/record_encoding.h"
#include "tokenizer/tokenizer.h"

namespace gradmill {

struct CorpusTokenizer {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string hash;            // hash of its files
  std::optional<TokenId> eos;  // the eos_token of tokenizer_config.json, or a token with a well-known name

  // `eos_name`: "auto" uses the token above, "none" appends nothing, anything else names a token. Throws a usage_error
  // for a token that does not exist.
  RecordEncoding text(const std::string& column, const std::string& eos_name) const;
  // Includes the tokens that a model expects around a text.
  RecordEncoding whole_text(const std::string& column) const;
};

// `path` is anything that load_tokenizer accepts. Throws a data_error.
CorpusTokenizer open_corpus_tokenizer(const std::filesystem::path& path);

}  // namespace gradmill
