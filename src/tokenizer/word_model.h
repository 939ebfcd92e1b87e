// SPDX-License-Identifier: Apache-2.0
// The last step of encoding: splits a word into tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace gradmill {

// A token, and how many bytes of the word it covers.
struct WordToken {
  TokenId id;
  uint32_t num_bytes;
};

// Immutable.
class WordModel {
 public:
  // Longer words are a data_error.
  static constexpr size_t kMaxWordBytes = size_t{1} << 31;

  virtual ~WordModel() = default;
  virtual const Vocabulary& vocabulary() const = 0;
  // Appends the tokens of a word, in O(n log n) time. If text has no token and there is no unknown token, BPE omits it,
  // as Hugging Face's library does; other models throw a data_error.
  virtual void encode_word(std::string_view word, std::vector<WordToken>& tokens) const = 0;
};

}  // namespace gradmill
