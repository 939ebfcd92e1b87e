// SPDX-License-Identifier: Apache-2.0
// TokenBytes: the number of bytes of text that a token stands for. Used to measure a model per byte instead of per
// token.
#pragma once

#include <vector>

#include "tokenizer/tokenizer.h"

namespace gradmill {

class TokenBytes {
 public:
  // The tokenizer must outlive this object.
  explicit TokenBytes(const Tokenizer& tokenizer);

  // The length of the token in the middle of a text, where decoders neither remove nor add a space. 0 for special
  // tokens and unknown ids.
  int64_t of(TokenId id);

 private:
  int64_t measure(TokenId id) const;

  const Tokenizer& tokenizer_;
  std::vector<TokenId> around_;  // a visible token, if there is one
  std::vector<int32_t> known_;   // by id; -1: not computed yet
};

}  // namespace gradmill
