// SPDX-License-Identifier: Apache-2.0
// WordLevel: each word is one token, or unknown.
#pragma once

#include <utility>

#include "core/error.h"
#include "files/strict_json.h"
#include "tokenizer/word_model.h"

namespace gradmill {

class WordLevel final : public WordModel {
 public:
  // `unknown` is -1 if there is none.
  WordLevel(Vocabulary vocabulary, TokenId unknown) : vocabulary_(std::move(vocabulary)), unknown_(unknown) {}

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void encode_word(std::string_view word, std::vector<WordToken>& tokens) const override {
    const TokenId id = vocabulary_.id_of_bytes(word).value_or(unknown_);
    if (id < 0) {
      throw data_error(
          fmt::format("the word {} is not in this vocabulary, nor has it an unknown token", quote_for_message(word)),
          "use another vocabulary or take the word out of the text");
    }
    tokens.push_back({id, static_cast<uint32_t>(word.size())});
  }

 private:
  Vocabulary vocabulary_;
  TokenId unknown_;
};

}  // namespace gradmill
