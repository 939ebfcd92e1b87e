// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding of characters, as Llama 2 and Gemma have it: each character is a token to begin with, and those
// that are none become the tokens of their bytes, or the unknown token.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/merge_table.h"
#include "tokenizer/token_trie.h"
#include "tokenizer/word_model.h"

namespace gradmill {

// The tokens `<0x00>` to `<0xFF>` of a vocabulary; -1 for those it lacks.
std::array<TokenId, 256> find_byte_tokens(const Vocabulary& vocabulary);

struct CharBpeOptions {
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges would make of it
  bool byte_fallback = false;
  TokenId unknown = -1;        // -1: what has no token is left out, as in Hugging Face's library
  bool fuse_unknown = false;   // neighbouring unknown characters are one token
  std::string prefix;          // of characters that do not begin a word
  std::string suffix;          // of the one that ends it
  std::vector<TokenId> whole;  // tokens that are taken as they are, before any merge; of several the longest
};

class CharBpe final : public WordModel {
 public:
  CharBpe(Vocabulary vocabulary, const std::vector<Merge>& merges, CharBpeOptions options);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void encode_word(std::string_view word, std::vector<WordToken>& tokens) const override;

 private:
  class Splitter;
  TokenId char_token(std::string_view letter, bool first, bool last) const;
  // The length of the `whole` token that the text begins with, or 0.
  WordToken find_whole(std::string_view text) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  CharBpeOptions options_;
  TokenTrie whole_;
  std::array<TokenId, 256> byte_ids_;
};

}  // namespace gradmill
