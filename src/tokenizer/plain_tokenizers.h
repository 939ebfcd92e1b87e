// SPDX-License-Identifier: Apache-2.0
// Tokenizers that need no learning: one token per byte, or one per character of a text.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace gradmill {

// Ids 0 to 255 are the bytes. Token names use GPT-2's spelling of bytes.
class ByteTokenizer final : public Tokenizer {
 public:
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const override;
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const override;
  int64_t vocab_size() const override { return 256; }
  std::optional<std::string> token(TokenId id) const override;
  std::optional<TokenId> id(std::string_view token) const override;
  const SequenceTemplate& sequence_template() const override { return template_; }

 private:
  SequenceTemplate template_;
};

// An id is the rank of a character (code point) among those of the vocabulary, as in CharVocab.
class CharTokenizer final : public Tokenizer {
 public:
  // `text` contains the characters, in any order and number. Throws a data_error if it is empty or not UTF-8.
  explicit CharTokenizer(std::string_view text);

  // Throws a data_error for a character outside the vocabulary and for bytes that are not UTF-8.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const override;
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(characters_.size()); }
  std::optional<std::string> token(TokenId id) const override;
  std::optional<TokenId> id(std::string_view token) const override;
  const SequenceTemplate& sequence_template() const override { return template_; }

 private:
  std::vector<std::string> characters_;
  std::unordered_map<char32_t, TokenId> ids_;
  SequenceTemplate template_;
};

}  // namespace gradmill
