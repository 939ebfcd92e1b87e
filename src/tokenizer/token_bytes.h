// SPDX-License-Identifier: Apache-2.0
// TokenBytes: how many bytes of text a token stands for, to measure a model by its text and not by its tokens.
#pragma once

#include <vector>

#include "tokenizer/tokenizer.h"

namespace gradmill {

class TokenBytes {
 public:
  // The tokenizer must outlive it.
  explicit TokenBytes(const Tokenizer& tokenizer);

  // In the middle of a text, where no decoder takes off or adds a space; 0 for special tokens and unknown ids.
  int64_t of(TokenId id);

 private:
  int64_t measure(TokenId id) const;

  const Tokenizer& tokenizer_;
  std::vector<TokenId> around_;  // a token that shows, where there is one
  std::vector<int32_t> known_;   // by id; -1: not yet
};

}  // namespace gradmill
