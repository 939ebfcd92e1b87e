// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding of characters, as in Llama 2 and Gemma: initially each character is one token. Characters that are
// not in the vocabulary become the tokens of their bytes, or the unknown token.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/merge_table.h"
#include "tokenizer/token_trie.h"
#include "tokenizer/word_model.h"

namespace gradmill {

// The tokens `<0x00>` to `<0xFF>` of a vocabulary; -1 for missing ones.
std::array<TokenId, 256> find_byte_tokens(const Vocabulary& vocabulary);

struct CharBpeOptions {
  bool ignore_merges = false;  // a word that is itself a token is not split, whatever the merges would give
  bool byte_fallback = false;
  TokenId unknown = -1;        // -1: characters without a token are omitted, as in Hugging Face's library
  bool fuse_unknown = false;   // neighbouring unknown characters become one token
  std::string prefix;          // added to characters that do not begin a word
  std::string suffix;          // added to the character that ends a word
  std::vector<TokenId> whole;  // tokens matched in the text before any merge; the longest match wins
};

class CharBpe final : public WordModel {
 public:
  CharBpe(Vocabulary vocabulary, const std::vector<Merge>& merges, CharBpeOptions options);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void encode_word(std::string_view word, std::vector<WordToken>& tokens) const override;

 private:
  class Splitter;
  TokenId char_token(std::string_view letter, bool first, bool last) const;
  // Length of the `whole` token at the start of the text, or 0.
  WordToken find_whole(std::string_view text) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  CharBpeOptions options_;
  TokenTrie whole_;
  std::array<TokenId, 256> byte_ids_;
};

}  // namespace gradmill
