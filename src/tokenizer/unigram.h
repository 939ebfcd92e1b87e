// SPDX-License-Identifier: Apache-2.0
// Unigram: of all ways to write a word with tokens, chooses the one with the highest sum of scores.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "tokenizer/token_trie.h"
#include "tokenizer/word_model.h"

namespace gradmill {

struct UnigramOptions {
  TokenId unknown = -1;        // -1 if there is none
  bool byte_fallback = false;  // unknown text becomes the tokens of its bytes, if all of them exist
  // SentencePiece sums in single precision. It also has pieces that never match text (`hidden`), and user-defined
  // pieces, which it prefers to all others.
  bool single_precision = false;
  std::vector<TokenId> hidden, user_defined;
};

class Unigram final : public WordModel {
 public:
  // `scores` has one score per id of the vocabulary.
  Unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options);

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void encode_word(std::string_view word, std::vector<WordToken>& tokens) const override;

 private:
  // The best path to a position: the token that ends there.
  struct Step {
    double score = 0;
    uint32_t begin = kUnreached;
    TokenId id = -1;
  };
  static constexpr uint32_t kUnreached = 0xFFFFFFFF;

  void search(std::string_view word, std::vector<Step>& best) const;
  double add(double sum, double score) const;
  double score_of(TokenId id, size_t length) const;
  void emit_unknown(std::string_view part, std::vector<WordToken>& tokens) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  UnigramOptions options_;
  std::vector<bool> is_user_defined_;  // by id; empty if there are none
  double unknown_score_ = 0, max_score_ = 0;
  TokenTrie trie_;
  std::array<TokenId, 256> byte_ids_;
};

}  // namespace gradmill
