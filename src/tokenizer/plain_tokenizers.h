// SPDX-License-Identifier: Apache-2.0
// Tokenizers that need no learning: one token for each byte, or for each character of a text.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace gradmill {

// Ids 0 to 255 are the bytes. Tokens are named as GPT-2 spells bytes.
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

// Ids are the places of characters (code points) in their order, as CharVocab gives them.
class CharTokenizer final : public Tokenizer {
 public:
  // The characters of a text, in any order and number. Throws a data_error if it is empty or not UTF-8.
  explicit CharTokenizer(std::string_view text);

  // Throws a data_error for a character outside the vocabulary, and for bytes that are not UTF-8.
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
