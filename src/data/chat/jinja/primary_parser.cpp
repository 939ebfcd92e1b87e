// SPDX-License-Identifier: Apache-2.0
// Parses the parts of an expression that bind most tightly: literals, names, members, calls, filters and tests.
#include <fmt/format.h>

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/parser.h"

namespace gradmill::jinja {

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& token = tokens_.current();
  switch (token.kind) {
    case TokenKind::name:
      return parse_named();
    case TokenKind::number:
      tokens_.next();
      return make(token.line, Constant{token.number});
    case TokenKind::text: {
      std::string text;
      while (tokens_.current().kind == TokenKind::text) text += tokens_.next().text;
      return make(token.line, Constant{std::move(text)});
    }
    default:
      break;
  }
  if (token.is("(")) return parse_parenthesis();
  if (token.is("[")) return parse_list();
  if (token.is("{")) return parse_dict();
  tokens_.fail_expected("a value");
}

ExpressionPtr ExpressionParser::parse_named() {
  const Token& token = tokens_.next();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make(token.line, Constant{true});
  if (name == "false" || name == "False") return make(token.line, Constant{false});
  if (name == "none" || name == "None") return make(token.line, Constant{Value()});
  return make(token.line, Name{symbols_.intern(name)});
}

ExpressionPtr ExpressionParser::parse_parenthesis() {
  const int line = tokens_.next().line;
  if (tokens_.skip(")")) return make(line, ListLiteral{{}, true});
  ExpressionPtr value = parse_tuple();
  tokens_.expect(")");
  return value;
}

ExpressionPtr ExpressionParser::parse_list() {
  const int line = tokens_.next().line;
  ListLiteral list;
  while (!tokens_.skip("]")) {
    if (!list.items.empty()) tokens_.expect(",");
    if (tokens_.skip("]")) break;
    list.items.push_back(parse());
  }
  return make(line, std::move(list));
}

ExpressionPtr ExpressionParser::parse_dict() {
  const int line = tokens_.next().line;
  DictLiteral dict;
  while (!tokens_.skip("}")) {
    if (!dict.entries.empty()) tokens_.expect(",");
    if (tokens_.skip("}")) break;
    ExpressionPtr key = parse();
    tokens_.expect(":");
    dict.entries.emplace_back(std::move(key), parse());
  }
  return make(line, std::move(dict));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr object) {
  while (true) {
    const Token& token = tokens_.current();
    if (token.is("."))
      object = parse_member(std::move(object));
    else if (token.is("["))
      object = parse_subscript(std::move(object));
    else if (token.is("("))
      object = make(token.line, Call{std::move(object), parse_arguments()});
    else
      return object;
  }
}

ExpressionPtr ExpressionParser::parse_member(ExpressionPtr object) {
  const int line = tokens_.next().line;
  const Token& member = tokens_.next();
  if (member.kind == TokenKind::name) return make(line, AttributeOf{std::move(object), member.text});
  if (member.kind != TokenKind::number || !member.number.is_integer()) tokens_.fail("expected a name after '.'");
  ExpressionPtr index = make(line, Constant{member.number});
  return make(line, ItemOf{std::move(object), std::move(index)});
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  const int line = tokens_.next().line;
  ExpressionPtr bounds[3];
  size_t num_colons = 0;
  while (!tokens_.current().is("]")) {
    if (tokens_.current().is(":")) {
      if (++num_colons > 2) tokens_.fail("a slice with more than two ':'");
      tokens_.next();
    } else {
      if (bounds[num_colons]) tokens_.fail_expected("']'");
      bounds[num_colons] = parse();
    }
  }
  tokens_.expect("]");
  if (num_colons > 0) {
    return make(line, SliceOf{std::move(object), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])});
  }
  if (!bounds[0]) tokens_.fail("expected an index between '[' and ']'");
  return make(line, ItemOf{std::move(object), std::move(bounds[0])});
}

CallArguments ExpressionParser::parse_arguments() {
  tokens_.expect("(");
  CallArguments arguments;
  for (bool first = true; !tokens_.skip(")"); first = false) {
    if (!first) tokens_.expect(",");
    if (tokens_.skip(")")) break;
    if (tokens_.current().is("*") || tokens_.current().is("**")) tokens_.fail("* and ** in a call are not supported");
    if (tokens_.current().kind == TokenKind::name && tokens_.ahead().is("=")) {
      std::string name = tokens_.next().text;
      tokens_.next();
      arguments.named.emplace_back(std::move(name), parse());
    } else {
      if (!arguments.named.empty()) tokens_.fail("an argument without a name after one with a name");
      arguments.positional.push_back(parse());
    }
  }
  return arguments;
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr input) {
  while (true) {
    const Token& token = tokens_.current();
    if (token.is("|")) {
      tokens_.next();
      input = parse_filter(std::move(input), token.line);
    } else if (token.is("is")) {
      input = parse_test(std::move(input));
    } else if (token.is("(")) {
      input = make(token.line, Call{std::move(input), parse_arguments()});
    } else {
      return input;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr input, int line) {
  FilterCall filter{std::move(input), tokens_.expect_name(), nullptr, {}};
  filter.builtin = find_filter(filter.name);
  if (tokens_.current().is("(")) filter.arguments = parse_arguments();
  return make(line, std::move(filter));
}

ExpressionPtr ExpressionParser::parse_block_filters() {
  ExpressionPtr filter = parse_filter(nullptr, tokens_.current().line);
  while (tokens_.skip("|")) filter = parse_filter(std::move(filter), tokens_.current().line);
  return filter;
}

bool ExpressionParser::at_test_operand() const {
  const Token& token = tokens_.current();
  if (token.kind == TokenKind::text || token.kind == TokenKind::number) return true;
  if (token.is("[") || token.is("{")) return true;
  if (token.kind != TokenKind::name) return false;
  return !(token.is("else") || token.is("or") || token.is("and"));
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr input) {
  const int line = tokens_.next().line;
  const bool negated = tokens_.skip("not");
  TestCall test{std::move(input), tokens_.expect_name(), nullptr, {}};
  test.builtin = find_test(test.name);
  if (tokens_.current().is("(")) {
    test.arguments = parse_arguments();
  } else if (tokens_.current().is("is")) {
    tokens_.fail("tests with `is` cannot be chained");
  } else if (at_test_operand()) {
    test.arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  ExpressionPtr result = make(line, std::move(test));
  return negated ? make(line, Not{std::move(result)}) : std::move(result);
}

}  // namespace gradmill::jinja
