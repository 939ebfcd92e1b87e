// SPDX-License-Identifier: Apache-2.0
// TextStream: the text of tokens that come one by one, in whole characters.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace gradmill {

// What the calls return, put together, is valid UTF-8: the text of the tokens behind the prompt. A character whose
// bytes come in several tokens is kept back until it is whole, or will never be.
class TextStream {
 public:
  // The tokenizer must outlive it. The prompt decides, with some tokenizers, whether a space comes first.
  TextStream(const Tokenizer& tokenizer, std::span<const TokenId> prompt);

  std::string add(TokenId token);
  // What was kept back. Nothing may follow.
  std::string finish();

 private:
  std::string take(size_t end);

  const Tokenizer& tokenizer_;
  std::vector<TokenId> window_;  // tokens whose text may still change what is behind them
  size_t done_ = 0;              // bytes of the window's text that are out
  std::string text_;             // the window's
};

}  // namespace gradmill
