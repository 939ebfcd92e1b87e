// SPDX-License-Identifier: Apache-2.0
// Renderer: runs a parsed template once.
#pragma once

#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/chat/jinja/callable.h"
#include "data/chat/jinja/syntax.h"

namespace gradmill::jinja {

// The variables of a part of a template. They hide those of enclosing scopes.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<Symbol, Value>> variables = {};
  bool captured = false;  // a macro refers to this scope
};

struct Span {
  size_t begin = 0;
  size_t end = 0;
};

class Renderer {
 public:
  // All arguments must outlive the renderer.
  Renderer(const Template& parsed, const Limits& limits, const std::tm& now);

  // Call this once. Throws a Fault; line() then returns its line.
  void run(const std::vector<std::pair<std::string, Value>>& variables);
  int line() const { return line_; }
  std::string take_text() { return std::move(root_output_); }
  // The positions of the text from {% generation %} blocks, in bytes.
  std::vector<Span> take_generated() { return std::move(generated_); }

  // Used by the functions that templates call.
  Work& work() { return work_; }
  const std::tm& now() const { return now_; }
  Namespace* make_namespace();
  Value call(const Value& callee, Arguments arguments);
  // Checks the arguments first.
  Value call(const Builtin& builtin, const Value& self, Arguments arguments);

 private:
  enum class Flow { go_on, leave_loop, next_round };
  class Depth;
  class InnerScope;

  Flow execute(const Block& block);
  Flow execute(const Output& node);
  Flow execute(const Print& node);
  Flow execute(const If& node);
  Flow execute(const For& node);
  Flow execute(const Set& node);
  Flow execute(const SetBlock& node);
  Flow execute(const DefineMacro& node);
  Flow execute(const CallBlock& node);
  Flow execute(const FilterBlock& node);
  Flow execute(const With& node);
  Flow execute(const Generation& node);
  Flow execute(const Break&) { return Flow::leave_loop; }
  Flow execute(const Continue&) { return Flow::next_round; }

  Value evaluate(const Expression& expression);
  // Returns `fallback` if there is no expression.
  Value evaluate(const ExpressionPtr& expression, Value fallback);
  Value evaluate(const Constant& node) { return node.value; }
  Value evaluate(const Name& node) { return variable(node.symbol); }
  Value evaluate(const ListLiteral& node);
  Value evaluate(const DictLiteral& node);
  Value evaluate(const AttributeOf& node);
  Value evaluate(const ItemOf& node);
  Value evaluate(const SliceOf& node);
  Value evaluate(const Call& node);
  Value evaluate(const FilterCall& node);
  Value evaluate(const TestCall& node);
  Value evaluate(const Not& node);
  Value evaluate(const Sign& node);
  Value evaluate(const Binary& node);
  Value evaluate(const CompareChain& node);
  Value evaluate(const Logic& node);
  Value evaluate(const Concat& node);
  Value evaluate(const Conditional& node);
  Arguments evaluate(const CallArguments& arguments);
  bool compare(Comparison comparison, const Value& left, const Value& right);

  std::vector<Value> loop_items(const For& node);
  void write(std::string_view text);
  // Returns the output of a block as a text.
  std::string capture(const Block& block);
  Value call_macro(const Callable& macro, Arguments arguments);
  void bind_parameters(const MacroSignature& macro, Arguments& arguments);
  Value make_macro(const MacroSignature& macro);

  Value variable(Symbol symbol);
  void assign(Symbol symbol, Value value);
  void assign(const Target& target, const Value& value);

  const Template& template_;
  Work work_;
  const std::tm& now_;
  Scope globals_;
  Scope* scope_ = &globals_;
  std::deque<std::unique_ptr<Scope>> kept_scopes_;  // scopes that macros refer to
  std::deque<Namespace> namespaces_;
  std::string root_output_;
  std::string* output_ = &root_output_;
  std::vector<Span> generated_;
  const Value* block_text_ = nullptr;             // input for the filters of a block
  Symbol loop_symbol_ = -1, caller_symbol_ = -1;  // -1 unless the template uses these names
  int depth_ = 0;
  int line_ = 1;
};

}  // namespace gradmill::jinja
