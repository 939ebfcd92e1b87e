// SPDX-License-Identifier: Apache-2.0
// Evaluates expressions.
#include <fmt/format.h>

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/renderer.h"
#include "data/chat/jinja/renderer_depth.h"

namespace gradmill::jinja {

Value Renderer::evaluate(const Expression& expression) {
  const Depth depth(*this);
  work_.spend(1);
  line_ = expression.line;
  return std::visit([&](const auto& node) { return evaluate(node); }, expression.node);
}

Value Renderer::evaluate(const ExpressionPtr& expression, Value fallback) {
  return expression ? evaluate(*expression) : std::move(fallback);
}

Value Renderer::evaluate(const ListLiteral& node) {
  work_.spend_values(node.items.size());
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item));
  return make_list(std::move(items), work_.limits(), node.tuple);
}

Value Renderer::evaluate(const DictLiteral& node) {
  Dict dict;
  for (const auto& [key_node, value_node] : node.entries) {
    const Value key = evaluate(*key_node);
    put(dict, key, evaluate(*value_node), work_);
  }
  return make_dict(std::move(dict), work_.limits());
}

Value Renderer::evaluate(const AttributeOf& node) { return attribute_of(evaluate(*node.object), node.name, work_); }

Value Renderer::evaluate(const ItemOf& node) {
  const Value object = evaluate(*node.object);
  return item_of(object, evaluate(*node.index), work_);
}

Value Renderer::evaluate(const SliceOf& node) {
  const Value object = evaluate(*node.object);
  const Value begin = evaluate(node.begin, {}), end = evaluate(node.end, {}), step = evaluate(node.step, {});
  return slice(object, begin, end, step, work_);
}

Arguments Renderer::evaluate(const CallArguments& arguments) {
  Arguments values;
  for (const ExpressionPtr& argument : arguments.positional) values.positional.emplace_back(evaluate(*argument));
  for (const auto& [name, argument] : arguments.named) values.named.emplace_back(name, evaluate(*argument));
  return values;
}

Value Renderer::evaluate(const Call& node) {
  const int line = line_;
  const Value callee = evaluate(*node.callee);
  Arguments arguments = evaluate(node.arguments);
  line_ = line;
  return call(callee, std::move(arguments));
}

Value Renderer::evaluate(const FilterCall& node) {
  if (node.builtin == nullptr) throw Fault(fmt::format("no filter named '{}'", node.name));
  const int line = line_;
  const Value input = node.input ? evaluate(*node.input) : *block_text_;
  Arguments arguments = evaluate(node.arguments);
  line_ = line;
  return call(*node.builtin, input, std::move(arguments));
}

Value Renderer::evaluate(const TestCall& node) {
  if (node.builtin == nullptr) throw Fault(fmt::format("no test named '{}'", node.name));
  const Value input = evaluate(*node.input);
  return call(*node.builtin, input, evaluate(node.arguments));
}

Value Renderer::evaluate(const Not& node) { return !truth(evaluate(*node.operand)); }

Value Renderer::evaluate(const Sign& node) {
  const Value value = evaluate(*node.operand);
  return node.negative ? negate(value) : negate(negate(value));
}

Value Renderer::evaluate(const Binary& node) {
  const Value left = evaluate(*node.left);
  const Value right = evaluate(*node.right);
  return calculate(node.operation, left, right, work_);
}

Value Renderer::evaluate(const CompareChain& node) {
  Value left = evaluate(*node.first);
  for (const auto& [comparison, operand] : node.rest) {
    Value right = evaluate(*operand);
    if (!compare(comparison, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

bool Renderer::compare(Comparison comparison, const Value& left, const Value& right) {
  switch (comparison) {
    case Comparison::equal:
      return equal(left, right, work_);
    case Comparison::unequal:
      return !equal(left, right, work_);
    case Comparison::less:
      return order(left, right, "<", work_) < 0;
    case Comparison::less_equal:
      return order(left, right, "<=", work_) <= 0;
    case Comparison::greater:
      return order(left, right, ">", work_) > 0;
    case Comparison::greater_equal:
      return order(left, right, ">=", work_) >= 0;
    case Comparison::in:
      return contains(right, left, work_);
    case Comparison::not_in:
      return !contains(right, left, work_);
  }
  return false;
}

Value Renderer::evaluate(const Logic& node) {
  Value left = evaluate(*node.left);
  return truth(left) == node.is_and ? evaluate(*node.right) : left;
}

Value Renderer::evaluate(const Concat& node) {
  std::string text;
  for (const ExpressionPtr& part : node.parts) text += str(evaluate(*part), work_);
  return text;
}

Value Renderer::evaluate(const Conditional& node) {
  if (truth(evaluate(*node.condition))) return evaluate(*node.yes);
  if (!node.no) return Value::undefined("a conditional expression without else has no value");
  return evaluate(*node.no);
}

}  // namespace gradmill::jinja
