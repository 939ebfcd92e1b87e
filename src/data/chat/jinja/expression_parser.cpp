// SPDX-License-Identifier: Apache-2.0
// Jinja's grammar of expressions, with one function per level of precedence.
#include <fmt/format.h>

#include <algorithm>

#include "data/chat/jinja/parser.h"

namespace gradmill::jinja {
// Counts the nesting of brackets, signs and `not`.
class ExpressionParser::Level {
 public:
  explicit Level(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.level_ > parser_.limits_.max_expression_depth) {
      parser_.tokens_.fail(fmt::format("expressions nested deeper than {}", parser_.limits_.max_expression_depth));
    }
  }
  ~Level() { --parser_.level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  ExpressionParser& parser_;
};

ExpressionPtr ExpressionParser::make(int line, ExpressionNode node) {
  // A chain such as a + b + c + ... is as deep as it is long.
  const int depth = depth_below(node) + 1;
  if (depth > limits_.max_expression_depth) {
    tokens_.fail(fmt::format("an expression of more than {} parts in one another", limits_.max_expression_depth));
  }
  return std::make_unique<const Expression>(Expression{line, depth, std::move(node)});
}

ExpressionPtr ExpressionParser::parse(Conditionals conditionals) {
  const Level level(*this);
  ExpressionPtr value = parse_or();
  if (conditionals == Conditionals::no) return value;
  while (tokens_.current().is("if")) {
    const int line = tokens_.next().line;
    ExpressionPtr condition = parse_or();
    ExpressionPtr otherwise = tokens_.skip("else") ? parse() : nullptr;
    value = make(line, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

bool ExpressionParser::at_tuple_end() const {
  const Token& token = tokens_.current();
  return token.kind == TokenKind::block_end || token.kind == TokenKind::print_end || token.is(")") || token.is("=") ||
         token.is("in");
}

ExpressionPtr ExpressionParser::parse_tuple(Conditionals conditionals) {
  const int line = tokens_.current().line;
  ExpressionPtr first = parse(conditionals);
  if (!tokens_.current().is(",")) return first;
  ListLiteral tuple{{}, true};
  tuple.items.push_back(std::move(first));
  while (tokens_.skip(",") && !at_tuple_end()) tuple.items.push_back(parse(conditionals));
  return make(line, std::move(tuple));
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr left = parse_and();
  while (tokens_.current().is("or")) {
    const int line = tokens_.next().line;
    left = make(line, Logic{false, std::move(left), parse_and()});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  while (tokens_.current().is("and")) {
    const int line = tokens_.next().line;
    left = make(line, Logic{true, std::move(left), parse_not()});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!tokens_.current().is("not")) return parse_comparison();
  const Level level(*this);
  const int line = tokens_.next().line;
  return make(line, Not{parse_not()});
}

ExpressionPtr ExpressionParser::parse_comparison() {
  struct Spelling {
    std::string_view sign;
    Comparison comparison;
  };
  constexpr Spelling kSpellings[] = {{"==", Comparison::equal},  {"!=", Comparison::unequal},
                                     {"<", Comparison::less},    {"<=", Comparison::less_equal},
                                     {">", Comparison::greater}, {">=", Comparison::greater_equal},
                                     {"in", Comparison::in}};
  const int line = tokens_.current().line;
  CompareChain chain{parse_sum(), {}};
  while (true) {
    if (tokens_.current().is("not") && tokens_.ahead().is("in")) {
      tokens_.next();
      tokens_.next();
      chain.rest.emplace_back(Comparison::not_in, parse_sum());
      continue;
    }
    const auto* found =
        std::ranges::find_if(kSpellings, [&](const Spelling& s) { return tokens_.current().is(s.sign); });
    if (found == std::end(kSpellings)) break;
    tokens_.next();
    chain.rest.emplace_back(found->comparison, parse_sum());
  }
  return chain.rest.empty() ? std::move(chain.first) : make(line, std::move(chain));
}

ExpressionPtr ExpressionParser::parse_sum() {
  ExpressionPtr left = parse_concat();
  while (tokens_.current().is("+") || tokens_.current().is("-")) {
    const Arithmetic operation = tokens_.current().is("+") ? Arithmetic::add : Arithmetic::subtract;
    const int line = tokens_.next().line;
    left = make(line, Binary{operation, std::move(left), parse_concat()});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concat() {
  const int line = tokens_.current().line;
  Concat concat;
  concat.parts.push_back(parse_product());
  while (tokens_.skip("~")) concat.parts.push_back(parse_product());
  return concat.parts.size() == 1 ? std::move(concat.parts.front()) : make(line, std::move(concat));
}

ExpressionPtr ExpressionParser::parse_product() {
  ExpressionPtr left = parse_power();
  while (true) {
    const Token& token = tokens_.current();
    Arithmetic operation;
    if (token.is("*"))
      operation = Arithmetic::multiply;
    else if (token.is("/"))
      operation = Arithmetic::divide;
    else if (token.is("//"))
      operation = Arithmetic::floor_divide;
    else if (token.is("%"))
      operation = Arithmetic::modulo;
    else
      return left;
    const int line = tokens_.next().line;
    left = make(line, Binary{operation, std::move(left), parse_power()});
  }
}

ExpressionPtr ExpressionParser::parse_power() {
  ExpressionPtr left = parse_unary(true);
  while (tokens_.current().is("**")) {
    const int line = tokens_.next().line;
    left = make(line, Binary{Arithmetic::power, std::move(left), parse_unary(true)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  const Level level(*this);
  const Token& token = tokens_.current();
  const bool negative = token.is("-");
  ExpressionPtr value;
  if (negative || token.is("+")) {
    const int line = tokens_.next().line;
    value = make(line, Sign{parse_unary(false), negative});
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters(std::move(value)) : std::move(value);
}

}  // namespace gradmill::jinja
