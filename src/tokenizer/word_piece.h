// SPDX-License-Identifier: Apache-2.0
// WordPiece: takes the longest token at the start of a word, then the longest continuation, and so on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/token_trie.h"
#include "tokenizer/word_model.h"

namespace gradmill {

struct WordPieceOptions {
  TokenId unknown = -1;  // for a whole word that the vocabulary cannot express; -1 if there is none
  std::string prefix = "##";
  size_t max_chars = 100;  // longer words are unknown
};

class WordPiece final : public WordModel {
 public:
  WordPiece(Vocabulary vocabulary, WordPieceOptions options);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void encode_word(std::string_view word, std::vector<WordToken>& tokens) const override;

 private:
  bool split(std::string_view word, std::vector<WordToken>& tokens) const;

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  TokenTrie trie_;
  TokenTrie::Node continuation_;  // the node after the prefix; kNone if no token has it
};

}  // namespace gradmill
