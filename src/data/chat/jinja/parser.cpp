// SPDX-License-Identifier: Apache-2.0
// Parses statements.
#include "data/chat/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/chat/jinja/text.h"

namespace gradmill::jinja {
namespace {

class Parser {
 public:
  Parser(std::vector<Token> tokens, const Limits& limits)
      : tokens_(std::move(tokens)), expressions_(tokens_, symbols_, limits), limits_(limits) {}

  Template run() {
    Template result;
    result.body = parse_block({});
    result.symbols = symbols_.take();
    result.has_generation = has_generation_;
    return result;
  }

 private:
  using Ends = std::vector<std::string_view>;

  // Parses up to one of the tags `ends`, whose name becomes the current token. Without `ends`, up to the end of the
  // template.
  Block parse_block(const Ends& ends) {
    if (++depth_ > limits_.max_block_depth) {
      tokens_.fail(fmt::format("blocks nested deeper than {}", limits_.max_block_depth));
    }
    const int first_line = tokens_.previous().line;
    Block block;
    while (true) {
      const Token& token = tokens_.next();
      if (token.kind == TokenKind::data) {
        block.push_back({token.line, Output{token.text}});
      } else if (token.kind == TokenKind::print_begin) {
        block.push_back({token.line, Print{expressions_.parse_tuple()}});
        tokens_.expect_kind(TokenKind::print_end);
      } else if (token.kind == TokenKind::end) {
        if (!ends.empty()) {
          throw SyntaxFault{first_line, fmt::format("a block is not closed by {{% {} %}}", ends.back())};
        }
        break;
      } else {
        const bool closes = std::ranges::any_of(ends, [&](std::string_view end) { return tokens_.current().is(end); });
        if (closes) break;
        block.push_back(parse_statement());
      }
    }
    --depth_;
    return block;
  }

  // Parses from the end of a block's opening tag, which is consumed here, up to {% end %}.
  Block parse_body(std::string_view end) {
    tokens_.expect_kind(TokenKind::block_end);
    Block body = parse_block({end});
    tokens_.next();
    tokens_.expect_kind(TokenKind::block_end);
    return body;
  }

  Statement parse_statement() {
    struct Tag {
      std::string_view name;
      Statement (Parser::*parse)(int line);
    };
    static constexpr Tag kTags[] = {{"if", &Parser::parse_if},       {"for", &Parser::parse_for},
                                    {"set", &Parser::parse_set},     {"macro", &Parser::parse_macro},
                                    {"call", &Parser::parse_call},   {"filter", &Parser::parse_filter},
                                    {"with", &Parser::parse_with},   {"generation", &Parser::parse_generation},
                                    {"break", &Parser::parse_break}, {"continue", &Parser::parse_continue}};
    const Token& token = tokens_.current();
    const auto* tag = std::ranges::find_if(kTags, [&](const Tag& known) { return token.is(known.name); });
    if (tag == std::end(kTags)) {
      if (token.kind != TokenKind::name) tokens_.fail_expected("a tag");
      tokens_.fail(fmt::format("the tag '{}' stands in the wrong place or is not supported", token.text.substr(0, 40)));
    }
    tokens_.next();
    return (this->*tag->parse)(token.line);
  }

  Statement parse_if(int line) {
    If node;
    while (true) {
      ExpressionPtr condition = expressions_.parse_tuple(ExpressionParser::Conditionals::no);
      tokens_.expect_kind(TokenKind::block_end);
      node.branches.emplace_back(std::move(condition), parse_block({"elif", "else", "endif"}));
      if (!tokens_.skip("elif")) break;
    }
    if (tokens_.skip("else"))
      node.otherwise = parse_body("endif");
    else
      close_tag();
    return {line, std::move(node)};
  }

  void close_tag() {
    tokens_.next();
    tokens_.expect_kind(TokenKind::block_end);
  }

  Statement parse_for(int line) {
    For node;
    node.target = parse_target();
    tokens_.expect("in");
    node.items = expressions_.parse_tuple(ExpressionParser::Conditionals::no);
    if (tokens_.skip("if")) node.condition = expressions_.parse();
    if (tokens_.current().is("recursive")) tokens_.fail("recursive loops are not supported");
    tokens_.expect_kind(TokenKind::block_end);
    ++num_loops_;
    node.body = parse_block({"else", "endfor"});
    --num_loops_;
    if (tokens_.skip("else"))
      node.otherwise = parse_body("endfor");
    else
      close_tag();
    return {line, std::move(node)};
  }

  Target parse_one_target() {
    if (tokens_.skip("(")) {
      if (++depth_ > limits_.max_block_depth) tokens_.fail("too many brackets");
      Target inner = parse_target();
      --depth_;
      tokens_.expect(")");
      return inner;
    }
    Target target;
    const std::string name = tokens_.expect_name();
    if (name == "loop" || name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
        name == "None") {
      tokens_.fail(fmt::format("'{}' cannot be assigned to", name));
    }
    target.symbol = symbols_.intern(name);
    if (tokens_.skip(".")) target.attribute = tokens_.expect_name();
    return target;
  }

  Target parse_target() {
    Target first = parse_one_target();
    if (!tokens_.current().is(",")) return first;
    Target all;
    all.parts.push_back(std::move(first));
    while (tokens_.skip(",") && !tokens_.current().is("in") && !tokens_.current().is("=")) {
      all.parts.push_back(parse_one_target());
    }
    return all;
  }

  Statement parse_set(int line) {
    Target target = parse_target();
    if (tokens_.skip("=")) {
      Set node{std::move(target), expressions_.parse_tuple()};
      tokens_.expect_kind(TokenKind::block_end);
      return {line, std::move(node)};
    }
    if (!target.parts.empty()) tokens_.fail_expected("'='");
    SetBlock node{std::move(target), nullptr, {}};
    if (tokens_.skip("|")) node.filter = expressions_.parse_block_filters();
    node.body = parse_body("endset");
    return {line, std::move(node)};
  }

  MacroSignature parse_signature(std::string name) {
    MacroSignature macro;
    macro.name = std::move(name);
    if (!tokens_.skip("(")) return macro;
    while (!tokens_.skip(")")) {
      if (!macro.parameters.empty()) tokens_.expect(",");
      macro.parameters.push_back(symbols_.intern(tokens_.expect_name()));
      if (tokens_.skip("="))
        macro.defaults.push_back(expressions_.parse());
      else if (!macro.defaults.empty())
        tokens_.fail("a parameter without a default after one with a default");
    }
    return macro;
  }

  Block parse_macro_body(std::string_view end) {
    const int outer_loops = std::exchange(num_loops_, 0);
    Block body = parse_body(end);
    num_loops_ = outer_loops;
    return body;
  }

  Statement parse_macro(int line) {
    const std::string name = tokens_.expect_name();
    DefineMacro node{symbols_.intern(name), {}};
    if (!tokens_.current().is("(")) tokens_.fail_expected("'('");
    node.macro = parse_signature(name);
    node.macro.body = parse_macro_body("endmacro");
    return {line, std::move(node)};
  }

  Statement parse_call(int line) {
    CallBlock node;
    node.symbol = symbols_.intern("caller");
    node.caller = parse_signature("caller");
    node.call = expressions_.parse();
    if (!std::holds_alternative<Call>(node.call->node)) tokens_.fail("expected a call after {% call");
    node.caller.body = parse_macro_body("endcall");
    return {line, std::move(node)};
  }

  Statement parse_filter(int line) {
    FilterBlock node{expressions_.parse_block_filters(), {}};
    node.body = parse_body("endfilter");
    return {line, std::move(node)};
  }

  Statement parse_with(int line) {
    With node;
    while (tokens_.current().kind != TokenKind::block_end) {
      if (!node.values.empty()) tokens_.expect(",");
      Target target = parse_one_target();
      tokens_.expect("=");
      node.values.emplace_back(std::move(target), expressions_.parse());
    }
    node.body = parse_body("endwith");
    return {line, std::move(node)};
  }

  Statement parse_generation(int line) {
    has_generation_ = true;
    return {line, Generation{parse_macro_body("endgeneration")}};
  }

  Statement parse_break(int line) { return leave_loop(line, Break{}); }
  Statement parse_continue(int line) { return leave_loop(line, Continue{}); }

  template <typename Node>
  Statement leave_loop(int line, Node node) {
    if (num_loops_ == 0) tokens_.fail("break or continue outside of a loop");
    tokens_.expect_kind(TokenKind::block_end);
    return {line, node};
  }

  TokenStream tokens_;
  SymbolTable symbols_;
  ExpressionParser expressions_;
  const Limits& limits_;
  int depth_ = 0;
  int num_loops_ = 0;  // loops around the statement, up to the enclosing macro
  bool has_generation_ = false;
};

}  // namespace

Template parse_template(std::string_view source, const Limits& limits) {
  if (source.size() > limits.max_source_bytes) {
    throw SyntaxFault{1, fmt::format("the template has more than {} bytes", limits.max_source_bytes)};
  }
  if (!is_valid_utf8(source)) throw SyntaxFault{1, "the template is not valid UTF-8"};
  return Parser(tokenize(source), limits).run();
}

}  // namespace gradmill::jinja
