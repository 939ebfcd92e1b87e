// SPDX-License-Identifier: Apache-2.0
// Splits template source into tokens. Handles white space around tags: trim_blocks, lstrip_blocks, and the signs minus
// and plus inside tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/chat/jinja/value.h"

namespace gradmill::jinja {

enum class TokenKind { data, block_begin, block_end, print_begin, print_end, name, text, number, sign, end };

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 0;
  std::string text;  // for data and texts: their value
  Value number;

  bool is(std::string_view expected) const {
    return (kind == TokenKind::sign || kind == TokenKind::name) && text == expected;
  }
};

// A Fault with a line number.
struct SyntaxFault {
  int line;
  std::string what;
};

// The last token has the kind `end`. Throws a SyntaxFault.
std::vector<Token> tokenize(std::string_view source);

}  // namespace gradmill::jinja
