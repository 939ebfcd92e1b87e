// SPDX-License-Identifier: Apache-2.0
// CorpusTokenizer: a tokenizer as data work needs it, with its hash and the token that ends a document.
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
  std::string hash;            // of its file
  std::optional<TokenId> eos;  // the eos_token of tokenizer_config.json beside it, or a name that is known as one

  // `eos`: "auto" takes the one above, "none" appends nothing, anything else names a token. Throws a usage_error for a
  // token that is not there.
  RecordEncoding text(const std::string& column, const std::string& eos_name) const;
  // With the tokens that a model expects around a text.
  RecordEncoding whole_text(const std::string& column) const;
};

// `path` as load_tokenizer takes it. Throws a data_error.
CorpusTokenizer open_corpus_tokenizer(const std::filesystem::path& path);

}  // namespace gradmill
