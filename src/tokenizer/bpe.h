// SPDX-License-Identifier: Apache-2.0
// Byte-level byte-pair encoding: words are raw bytes, and initially each byte is one token.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "tokenizer/merge_table.h"
#include "tokenizer/word_model.h"

namespace gradmill {

struct BpeOptions {
  bool ignore_merges = false;  // a word that is itself a token is not split, whatever the merges would give
  TokenId unknown = -1;        // for bytes without a token; -1: they are omitted, as in Hugging Face's library
  bool fuse_unknown = false;   // neighbouring unknown bytes become one token
};

class Bpe final : public WordModel {
 public:
  Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, const BpeOptions& options);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void encode_word(std::string_view word, std::vector<WordToken>& tokens) const override;

 private:
  void split_bytes(std::string_view word, std::vector<WordToken>& tokens) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  std::array<TokenId, 256> byte_ids_;  // -1 if a byte has no token
};

}  // namespace gradmill
