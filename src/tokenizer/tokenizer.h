// SPDX-License-Identifier: Apache-2.0
// Converts text to token ids and back, for all algorithms: characters, bytes, BPE, WordPiece, Unigram, SentencePiece.
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
  bool parse_special = true;  // false: special tokens in the text are ordinary text, for example in user input
  bool offsets = false;
};

// Bytes [begin, end) of the encoded text.
struct TokenSpan {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TokenSpan&) const = default;
};

struct Encoding {
  std::vector<TokenId> ids;
  std::vector<TokenSpan> offsets;  // one per id if requested in the options, otherwise empty
};

struct DecodeOptions {
  bool skip_special = false;
  bool replace_invalid = false;  // replaces bytes that are not UTF-8 with U+FFFD
};

// Immutable, so threads may share one. encode() adds no tokens around the text (begin, end, separators);
// sequence_template() does.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Accepts any bytes. Text that the vocabulary can express neither exactly nor as its unknown token is omitted by BPE,
  // as in Hugging Face's library (SmolLM2 lacks a few control characters). Other algorithms throw a data_error.
  virtual Encoding encode(std::string_view text, const EncodeOptions& options = {}) const = 0;
  // Throws a data_error for an id without a token.
  virtual std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const = 0;

  // The largest id + 1, which is the number of rows that an embedding needs. Some smaller ids may have no token.
  virtual int64_t vocab_size() const = 0;
  // A token as spelled in its file, which can differ from the text it stands for.
  virtual std::optional<std::string> token(TokenId id) const = 0;
  virtual std::optional<TokenId> id(std::string_view token) const = 0;

  // The tokens that the model expects around a text or a pair, according to the file.
  virtual const SequenceTemplate& sequence_template() const = 0;
};

}  // namespace gradmill
