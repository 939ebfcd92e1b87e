// SPDX-License-Identifier: Apache-2.0
// How records become documents of tokens: the interface between data files and the code that knows their contents.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/records/record.h"
#include "data/tokens/token_shard.h"
#include "tokenizer/tokenizer.h"

namespace gradmill {

struct TokenDocument {
  std::vector<TokenId> ids;
  std::vector<uint8_t> learned;  // non-zero: the token is a target; empty: all are
};

struct RecordEncoding {
  std::vector<FieldRequest> fields;  // fields that it needs from a record
  // Overwrites the document. A document without ids is skipped. Several threads call it at the same time. A data_error
  // means that this record cannot be used.
  std::function<void(const Record&, TokenDocument&)> encode;
  VocabId vocab;
  bool has_learned = false;  // documents may have tokens that are not learned
  std::string fingerprint;   // of everything that the ids depend on: the same text gives the same ids
};

struct TextEncodingOptions {
  std::string column = "text";
  int64_t eos = -1;  // appended to every document; -1: none
  // Adds the tokens that a model expects around a text, and the last of them twice: rows of packed documents end one
  // token before their document, because the last token only serves as the target of the one before it.
  bool whole = false;
};

// One column as running text. `tokenizer_hash` identifies the tokenizer's file.
RecordEncoding text_encoding(std::shared_ptr<const Tokenizer> tokenizer, const std::string& tokenizer_hash,
                             const TextEncodingOptions& options);

// Computed from the spelling of every token.
VocabId vocab_id(const Tokenizer& tokenizer);

}  // namespace gradmill
