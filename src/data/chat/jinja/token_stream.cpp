// SPDX-License-Identifier: Apache-2.0
#include "data/chat/jinja/token_stream.h"

#include <fmt/format.h>

namespace gradmill::jinja {
namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data:
      return "text";
    case TokenKind::block_begin:
      return "{%";
    case TokenKind::block_end:
      return "%}";
    case TokenKind::print_begin:
      return "{{";
    case TokenKind::print_end:
      return "}}";
    case TokenKind::end:
      return "the end of the template";
    case TokenKind::text:
      return "a text";
    default:
      return fmt::format("'{}'", token.text.substr(0, 40));
  }
}

}  // namespace

void TokenStream::fail(std::string_view what) const { throw SyntaxFault{current().line, std::string(what)}; }

void TokenStream::fail_expected(std::string_view what) const {
  fail(fmt::format("expected {}, found {}", what, describe(current())));
}

bool TokenStream::skip(std::string_view word) {
  if (!current().is(word)) return false;
  next();
  return true;
}

void TokenStream::expect(std::string_view word) {
  if (!skip(word)) fail_expected(fmt::format("'{}'", word));
}

std::string TokenStream::expect_name() {
  if (current().kind != TokenKind::name) fail_expected("a name");
  return next().text;
}

void TokenStream::expect_kind(TokenKind kind) {
  if (current().kind != kind) fail_expected(describe({kind, 0, "", {}}));
  next();
}

Symbol SymbolTable::intern(const std::string& name) {
  const auto [place, added] = numbers_.try_emplace(name, static_cast<Symbol>(names_.size()));
  if (added) names_.push_back(name);
  return place->second;
}

}  // namespace gradmill::jinja
