// SPDX-License-Identifier: Apache-2.0
// State shared by both parsers: the position in the tokens, and the names found so far.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/chat/jinja/lexer.h"
#include "data/chat/jinja/syntax.h"

namespace gradmill::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[position_]; }
  const Token& previous() const { return tokens_[position_ == 0 ? 0 : position_ - 1]; }
  const Token& ahead() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[current().kind == TokenKind::end ? position_ : position_++]; }
  bool skip(std::string_view word);
  void expect(std::string_view word);
  std::string expect_name();
  void expect_kind(TokenKind kind);
  [[noreturn]] void fail(std::string_view what) const;
  // Throws "expected X, found Y".
  [[noreturn]] void fail_expected(std::string_view what) const;

 private:
  std::vector<Token> tokens_;
  size_t position_ = 0;
};

// The names of variables, numbered in the order of first use.
class SymbolTable {
 public:
  Symbol intern(const std::string& name);
  std::vector<std::string> take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, Symbol> numbers_;
};

}  // namespace gradmill::jinja
