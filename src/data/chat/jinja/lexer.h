// SPDX-License-Identifier: Apache-2.0
// Template source to tokens. White space around tags is dealt with here: trim_blocks, lstrip_blocks, and the signs -
// and
// + inside tags.
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
  std::string text;  // of data and texts what they stand for
  Value number;

  bool is(std::string_view expected) const {
    return (kind == TokenKind::sign || kind == TokenKind::name) && text == expected;
  }
};

// A Fault that has a place.
struct SyntaxFault {
  int line;
  std::string what;
};

// The last token has the kind `end`. Throws a SyntaxFault.
std::vector<Token> tokenize(std::string_view source);

}  // namespace gradmill::jinja
