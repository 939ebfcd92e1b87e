// SPDX-License-Identifier: Apache-2.0
// Executes statements; handles macros and variables.
#include "data/chat/jinja/renderer.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/renderer_depth.h"

namespace gradmill::jinja {

// A scope that is kept after its block ends if a macro refers to it.
class Renderer::InnerScope {
 public:
  InnerScope(Renderer& renderer, Scope* parent)
      : renderer_(renderer), outer_(renderer.scope_), scope_(std::make_unique<Scope>(Scope{parent})) {
    renderer_.scope_ = scope_.get();
  }
  ~InnerScope() {
    renderer_.scope_ = outer_;
    if (scope_->captured) renderer_.kept_scopes_.push_back(std::move(scope_));
  }
  InnerScope(const InnerScope&) = delete;
  InnerScope& operator=(const InnerScope&) = delete;

 private:
  Renderer& renderer_;
  Scope* outer_;
  std::unique_ptr<Scope> scope_;
};

Renderer::Renderer(const Template& parsed, const Limits& limits, const std::tm& now)
    : template_(parsed), work_(limits), now_(now) {}

void Renderer::run(const std::vector<std::pair<std::string, Value>>& variables) {
  for (size_t i = 0; i < template_.symbols.size(); ++i) {
    const std::string& name = template_.symbols[i];
    const auto symbol = static_cast<Symbol>(i);
    if (name == "loop") loop_symbol_ = symbol;
    if (name == "caller") caller_symbol_ = symbol;
    const auto given = std::ranges::find(variables, name, &std::pair<std::string, Value>::first);
    if (given != variables.end()) {
      assign(symbol, given->second);
    } else if (const Builtin* function = find_in(global_functions(), name)) {
      assign(symbol, std::make_shared<const Callable>(Callable{.builtin = function}));
    }
  }
  execute(template_.body);
}

Value Renderer::variable(Symbol symbol) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    work_.spend(scope->variables.size() / 16);
    for (const auto& [name, value] : scope->variables) {
      if (name == symbol) return value;
    }
  }
  return Value::undefined(fmt::format("'{}' is undefined", template_.symbols[static_cast<size_t>(symbol)]));
}

void Renderer::assign(Symbol symbol, Value value) {
  work_.spend(scope_->variables.size() / 16);
  for (auto& [name, old] : scope_->variables) {
    if (name == symbol) {
      old = std::move(value);
      return;
    }
  }
  scope_->variables.emplace_back(symbol, std::move(value));
}

void Renderer::assign(const Target& target, const Value& value) {
  if (!target.parts.empty()) {
    const std::vector<Value> values = iterate(value, work_);
    if (values.size() != target.parts.size()) {
      throw Fault(fmt::format("{} values for {} names", values.size(), target.parts.size()));
    }
    for (size_t i = 0; i < values.size(); ++i) assign(target.parts[i], values[i]);
    return;
  }
  if (!target.attribute) return assign(target.symbol, value);
  Namespace* found = variable(target.symbol).as_namespace();
  if (found == nullptr) {
    throw Fault(fmt::format("'{}' is not a namespace, so '{}' cannot be set in it",
                            template_.symbols[static_cast<size_t>(target.symbol)], *target.attribute));
  }
  found->attributes.insert(*target.attribute, value);
}

Namespace* Renderer::make_namespace() {
  work_.spend_bytes(sizeof(Namespace));
  return &namespaces_.emplace_back();
}

void Renderer::write(std::string_view text) {
  if (output_->size() + text.size() > work_.limits().max_output_bytes) {
    throw Fault(fmt::format("more than {} bytes of output", work_.limits().max_output_bytes));
  }
  work_.spend_bytes(text.size());
  *output_ += text;
}

std::string Renderer::capture(const Block& block) {
  std::string text;
  std::string* outer = std::exchange(output_, &text);
  execute(block);
  output_ = outer;
  return text;
}

Renderer::Flow Renderer::execute(const Block& block) {
  const Depth depth(*this);
  for (const Statement& statement : block) {
    work_.spend(1);
    line_ = statement.line;
    const Flow flow = std::visit([&](const auto& node) { return execute(node); }, statement.node);
    if (flow != Flow::go_on) return flow;
  }
  return Flow::go_on;
}

Renderer::Flow Renderer::execute(const Output& node) {
  write(node.text);
  return Flow::go_on;
}

Renderer::Flow Renderer::execute(const Print& node) {
  const Value value = evaluate(*node.value);
  if (value.is_text())
    write(value.text());
  else
    write(str(value, work_));
  return Flow::go_on;
}

Renderer::Flow Renderer::execute(const If& node) {
  for (const auto& [condition, body] : node.branches) {
    if (truth(evaluate(*condition))) return execute(body);
  }
  return execute(node.otherwise);
}

std::vector<Value> Renderer::loop_items(const For& node) {
  std::vector<Value> items = iterate(evaluate(*node.items), work_);
  if (!node.condition) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const InnerScope scope(*this, scope_);
    assign(node.target, item);
    if (truth(evaluate(*node.condition))) kept.push_back(std::move(item));
  }
  return kept;
}

Renderer::Flow Renderer::execute(const For& node) {
  const Value items = make_list(loop_items(node), work_.limits());
  if (items.items().empty()) {
    const InnerScope scope(*this, scope_);
    return execute(node.otherwise);
  }
  for (size_t i = 0; i < items.items().size(); ++i) {
    work_.spend(4);
    const InnerScope scope(*this, scope_);
    if (loop_symbol_ >= 0) assign(loop_symbol_, std::make_shared<const LoopState>(LoopState{items, i}));
    assign(node.target, items.items()[i]);
    if (execute(node.body) == Flow::leave_loop) break;
  }
  return Flow::go_on;
}

Renderer::Flow Renderer::execute(const Set& node) {
  assign(node.target, evaluate(*node.value));
  return Flow::go_on;
}

Renderer::Flow Renderer::execute(const SetBlock& node) {
  Value text;
  {
    const InnerScope scope(*this, scope_);
    text = capture(node.body);
  }
  if (node.filter) {
    const Value* outer = std::exchange(block_text_, &text);
    const Value filtered = evaluate(*node.filter);
    block_text_ = outer;
    text = filtered;
  }
  assign(node.target, text);
  return Flow::go_on;
}

Renderer::Flow Renderer::execute(const FilterBlock& node) {
  Value text;
  {
    const InnerScope scope(*this, scope_);
    text = capture(node.body);
  }
  const Value* outer = std::exchange(block_text_, &text);
  const Value filtered = evaluate(*node.filter);
  block_text_ = outer;
  write(str(filtered, work_));
  return Flow::go_on;
}

Renderer::Flow Renderer::execute(const With& node) {
  std::vector<Value> values;
  for (const auto& [target, value] : node.values) values.push_back(evaluate(*value));
  const InnerScope scope(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) assign(node.values[i].first, values[i]);
  return execute(node.body);
}

Renderer::Flow Renderer::execute(const Generation& node) {
  if (output_ != &root_output_) {
    throw Fault("a {% generation %} block inside of a macro, a set or a filter: its place in the text is not known");
  }
  const InnerScope scope(*this, scope_);
  const size_t begin = root_output_.size();
  execute(node.body);
  generated_.push_back({begin, root_output_.size()});
  return Flow::go_on;
}

Renderer::Flow Renderer::execute(const DefineMacro& node) {
  assign(node.symbol, make_macro(node.macro));
  return Flow::go_on;
}

Renderer::Flow Renderer::execute(const CallBlock& node) {
  const Call& call_node = std::get<Call>(node.call->node);
  const Value callee = evaluate(*call_node.callee);
  Arguments arguments = evaluate(call_node.arguments);
  arguments.named.emplace_back("caller", make_macro(node.caller));
  write(str(call(callee, std::move(arguments)), work_));
  return Flow::go_on;
}

Value Renderer::make_macro(const MacroSignature& macro) {
  work_.spend_bytes(sizeof(Callable) + sizeof(Scope));
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) scope->captured = true;
  return std::make_shared<const Callable>(Callable{.macro = &macro, .scope = scope_});
}

Value Renderer::call(const Value& callee, Arguments arguments) {
  const Callable* callable = callee.as_callable();
  if (callable == nullptr) {
    if (callee.is_undefined()) throw Fault(callee.undefined_name());
    throw Fault(fmt::format("'{}' object is not callable", callee.type_name()));
  }
  if (callable->builtin != nullptr) return call(*callable->builtin, callable->self, std::move(arguments));
  return call_macro(*callable, std::move(arguments));
}

Value Renderer::call(const Builtin& builtin, const Value& self, Arguments arguments) {
  return builtin.function(*this, self, bind(builtin, std::move(arguments)));
}

Value Renderer::call_macro(const Callable& macro, Arguments arguments) {
  const Depth depth(*this);
  const InnerScope scope(*this, macro.scope);
  bind_parameters(*macro.macro, arguments);
  return capture(macro.macro->body);
}

void Renderer::bind_parameters(const MacroSignature& macro, Arguments& arguments) {
  const size_t num_parameters = macro.parameters.size();
  if (arguments.positional.size() > num_parameters) {
    throw Fault(fmt::format("macro '{}' takes at most {} arguments", macro.name, num_parameters));
  }
  work_.spend(num_parameters * (1 + arguments.named.size() / 16));
  const size_t num_required = num_parameters - macro.defaults.size();
  for (size_t i = 0; i < num_parameters; ++i) {
    const std::string& name = template_.symbols[static_cast<size_t>(macro.parameters[i])];
    const auto named = std::ranges::find(arguments.named, name, &std::pair<std::string, Value>::first);
    Value value;
    if (const Value* given = arguments.find(i)) {
      value = *given;
    } else if (named != arguments.named.end()) {
      value = std::move(named->second);
      arguments.named.erase(named);
    } else if (i >= num_required) {
      value = evaluate(*macro.defaults[i - num_required]);
    } else {
      value = Value::undefined(fmt::format("parameter '{}' was not provided", name));
    }
    assign(macro.parameters[i], std::move(value));
  }
  for (auto& [name, value] : arguments.named) {
    if (name != "caller" || caller_symbol_ < 0) {
      throw Fault(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, name));
    }
    assign(caller_symbol_, std::move(value));
  }
}

}  // namespace gradmill::jinja
