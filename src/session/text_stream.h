// SPDX-License-Identifier: Apache-2.0
// TextStream: turns tokens that come one by one into text, in whole characters.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace gradmill {

// The returned pieces together are valid UTF-8: the text of the tokens after the prompt. If the bytes of a character
// come in several tokens, it is held back until it is complete, or can no longer become so.
class TextStream {
 public:
  // The tokenizer must outlive it. With some tokenizers the prompt decides whether a space comes first.
  TextStream(const Tokenizer& tokenizer, std::span<const TokenId> prompt);

  std::string add(TokenId token);
  // Returns what was held back. No call may follow.
  std::string finish();

 private:
  std::string take(size_t end);

  const Tokenizer& tokenizer_;
  std::vector<TokenId> window_;  // tokens that can still change the text of those after them
  size_t done_ = 0;              // bytes of the window's text that were returned
  std::string text_;             // text of the window
};

}  // namespace gradmill
