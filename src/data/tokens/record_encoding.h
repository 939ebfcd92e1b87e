// SPDX-License-Identifier: Apache-2.0
// How records become documents of tokens: the seam between data files and whatever knows what is in them.
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
  std::vector<uint8_t> learned;  // not zero: the token is a target; empty: all are
};

struct RecordEncoding {
  std::vector<FieldRequest> fields;  // what it needs of a record
  // Overwrites the document; one without ids is left out. Threads call it at the same time. A data_error says that this
  // record cannot be used.
  std::function<void(const Record&, TokenDocument&)> encode;
  VocabId vocab;
  bool has_learned = false;  // documents may have tokens that are not learned
  std::string fingerprint;   // of all that the ids depend on; the same text, the same ids
};

struct TextEncodingOptions {
  std::string column = "text";
  int64_t eos = -1;  // appended to every document; -1: nothing is
  // With the tokens that a model expects around a text, and the last of them twice: rows of packed documents end one
  // token before their document does, because that token is what follows the one before it.
  bool whole = false;
};

// One column as running text. `tokenizer_hash` tells its file from others.
RecordEncoding text_encoding(std::shared_ptr<const Tokenizer> tokenizer, const std::string& tokenizer_hash,
                             const TextEncodingOptions& options);

// By the spelling of every token.
VocabId vocab_id(const Tokenizer& tokenizer);

}  // namespace gradmill
