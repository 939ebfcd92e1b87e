// SPDX-License-Identifier: Apache-2.0
// The syntax tree of a parsed template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/chat/jinja/callable.h"
#include "data/chat/jinja/python.h"
#include "data/chat/jinja/value.h"

namespace gradmill::jinja {

using Symbol = int;  // number of a variable; see Template::symbols

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Constant {
  Value value;
};
struct Name {
  Symbol symbol;
};
struct ListLiteral {
  std::vector<ExpressionPtr> items;
  bool tuple = false;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct AttributeOf {
  ExpressionPtr object;
  std::string name;
};
struct ItemOf {
  ExpressionPtr object;
  ExpressionPtr index;
};
struct SliceOf {
  ExpressionPtr object;
  ExpressionPtr begin, end, step;  // each may be null
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct FilterCall {
  ExpressionPtr input;  // null: the text of a block
  std::string name;
  const Builtin* builtin = nullptr;  // null: unknown filter, which is an error only when it is evaluated
  CallArguments arguments;
};
struct TestCall {
  ExpressionPtr input;
  std::string name;
  const Builtin* builtin = nullptr;
  CallArguments arguments;
};
struct Not {
  ExpressionPtr operand;
};
struct Sign {
  ExpressionPtr operand;
  bool negative = false;
};
struct Binary {
  Arithmetic operation;
  ExpressionPtr left, right;
};
enum class Comparison { equal, unequal, less, less_equal, greater, greater_equal, in, not_in };
struct CompareChain {
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Logic {
  bool is_and = false;
  ExpressionPtr left, right;
};
struct Concat {
  std::vector<ExpressionPtr> parts;
};
struct Conditional {
  ExpressionPtr condition, yes, no;  // `no` may be null
};

using ExpressionNode = std::variant<Constant, Name, ListLiteral, DictLiteral, AttributeOf, ItemOf, SliceOf, Call,
                                    FilterCall, TestCall, Not, Sign, Binary, CompareChain, Logic, Concat, Conditional>;

struct Expression {
  int line = 0;
  int depth = 1;
  ExpressionNode node;
};

// The greatest depth of the expressions inside a node.
int depth_below(const ExpressionNode& node);

struct Statement;
using Block = std::vector<Statement>;

// The target of an assignment: a name, a member of a namespace, or several targets.
struct Target {
  Symbol symbol = 0;
  std::optional<std::string> attribute;
  std::vector<Target> parts;  // if not empty, `symbol` is unused
};

struct MacroSignature {
  std::string name;
  std::vector<Symbol> parameters;
  std::vector<ExpressionPtr> defaults;  // defaults of the last parameters
  Block body;
};

struct Output {
  std::string text;
};
struct Print {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExpressionPtr items;
  ExpressionPtr condition;  // may be null
  Block body, otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // may be null
  Block body;
};
struct DefineMacro {
  Symbol symbol = 0;
  MacroSignature macro;
};
struct CallBlock {
  ExpressionPtr call;  // a Call
  Symbol symbol = 0;   // `caller`
  MacroSignature caller;
};
struct FilterBlock {
  ExpressionPtr filter;
  Block body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> values;
  Block body;
};
struct Generation {
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line = 0;
  std::variant<Output, Print, If, For, Set, SetBlock, DefineMacro, CallBlock, FilterBlock, With, Generation, Break,
               Continue>
      node;
};

struct Template {
  Block body;
  std::vector<std::string> symbols;  // names of the variables
  bool has_generation = false;
};

}  // namespace gradmill::jinja
