// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back, whatever the algorithm: characters, bytes, BPE, WordPiece, Unigram, SentencePiece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/sequence_template.h"
#include "tokenizer/token_id.h"

namespace gradmill {

struct EncodeOptions {
  bool parse_special = true;  // false: the text of a special token is ordinary text, as in what a user typed
  bool offsets = false;
};

// Bytes [begin, end) of the text that was encoded.
struct TokenSpan {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TokenSpan&) const = default;
};

struct Encoding {
  std::vector<TokenId> ids;
  std::vector<TokenSpan> offsets;  // one for each id where the options ask for it, else empty
};

struct DecodeOptions {
  bool skip_special = false;
  bool replace_invalid = false;  // write U+FFFD for bytes that are not UTF-8, instead of the bytes
};

// Immutable once made: threads may share one. Encoding adds no tokens around the text (begin, end, separators):
// sequence_template() does.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Any bytes are accepted. Text that the vocabulary can express neither exactly nor as its unknown token is left out
  // by BPE, as in Hugging Face's library (SmolLM2 lacks a few control characters), and a data_error elsewhere.
  virtual Encoding encode(std::string_view text, const EncodeOptions& options = {}) const = 0;
  // An id that no token has is a data_error.
  virtual std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const = 0;

  // The largest id + 1: the rows that an embedding needs. Ids in between may be without a token.
  virtual int64_t vocab_size() const = 0;
  // A token as its file spells it; not the text it stands for.
  virtual std::optional<std::string> token(TokenId id) const = 0;
  virtual std::optional<TokenId> id(std::string_view token) const = 0;

  // The tokens that the model expects around a text or a pair, as the file has them.
  virtual const SequenceTemplate& sequence_template() const = 0;
};

}  // namespace gradmill
