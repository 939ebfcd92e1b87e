// SPDX-License-Identifier: Apache-2.0
// Parses tokens into a Template. Both parsers limit their recursion and the depth of the result.
#pragma once

#include <string_view>

#include "data/chat/jinja/syntax.h"
#include "data/chat/jinja/token_stream.h"

namespace gradmill::jinja {

// Throws a SyntaxFault.
Template parse_template(std::string_view source, const Limits& limits);

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, SymbolTable& symbols, const Limits& limits)
      : tokens_(tokens), symbols_(symbols), limits_(limits) {}

  // After the `in` of a loop, `if` begins the loop's condition, not a conditional expression.
  enum class Conditionals { yes, no };
  ExpressionPtr parse(Conditionals conditionals = Conditionals::yes);
  // Several expressions separated by commas form a tuple.
  ExpressionPtr parse_tuple(Conditionals conditionals = Conditionals::yes);
  // The filters of a block. Their input is null, and the first name has no bar before it.
  ExpressionPtr parse_block_filters();
  CallArguments parse_arguments();

 private:
  class Level;
  ExpressionPtr make(int line, ExpressionNode node);

  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_named();
  ExpressionPtr parse_parenthesis();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr object);
  ExpressionPtr parse_member(ExpressionPtr object);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_filters(ExpressionPtr input);
  ExpressionPtr parse_filter(ExpressionPtr input, int line);
  ExpressionPtr parse_test(ExpressionPtr input);
  bool at_test_operand() const;
  bool at_tuple_end() const;

  TokenStream& tokens_;
  SymbolTable& symbols_;
  const Limits& limits_;
  int level_ = 0;
};

}  // namespace gradmill::jinja
