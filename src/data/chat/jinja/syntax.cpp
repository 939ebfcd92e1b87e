// SPDX-License-Identifier: Apache-2.0
#include "data/chat/jinja/syntax.h"

#include <algorithm>

namespace gradmill::jinja {
namespace {

int depth_of(const ExpressionPtr& expression) { return expression ? expression->depth : 0; }

int depth_of(const std::vector<ExpressionPtr>& expressions) {
  int deepest = 0;
  for (const ExpressionPtr& expression : expressions) deepest = std::max(deepest, depth_of(expression));
  return deepest;
}

int depth_of(const CallArguments& arguments) {
  int deepest = depth_of(arguments.positional);
  for (const auto& [name, value] : arguments.named) deepest = std::max(deepest, depth_of(value));
  return deepest;
}

int below(const Constant&) { return 0; }
int below(const Name&) { return 0; }
int below(const ListLiteral& node) { return depth_of(node.items); }
int below(const DictLiteral& node) {
  int deepest = 0;
  for (const auto& [key, value] : node.entries) deepest = std::max({deepest, depth_of(key), depth_of(value)});
  return deepest;
}
int below(const AttributeOf& node) { return depth_of(node.object); }
int below(const ItemOf& node) { return std::max(depth_of(node.object), depth_of(node.index)); }
int below(const SliceOf& node) {
  return std::max({depth_of(node.object), depth_of(node.begin), depth_of(node.end), depth_of(node.step)});
}
int below(const Call& node) { return std::max(depth_of(node.callee), depth_of(node.arguments)); }
int below(const FilterCall& node) { return std::max(depth_of(node.input), depth_of(node.arguments)); }
int below(const TestCall& node) { return std::max(depth_of(node.input), depth_of(node.arguments)); }
int below(const Not& node) { return depth_of(node.operand); }
int below(const Sign& node) { return depth_of(node.operand); }
int below(const Binary& node) { return std::max(depth_of(node.left), depth_of(node.right)); }
int below(const CompareChain& node) {
  int deepest = depth_of(node.first);
  for (const auto& [comparison, operand] : node.rest) deepest = std::max(deepest, depth_of(operand));
  return deepest;
}
int below(const Logic& node) { return std::max(depth_of(node.left), depth_of(node.right)); }
int below(const Concat& node) { return depth_of(node.parts); }
int below(const Conditional& node) {
  return std::max({depth_of(node.condition), depth_of(node.yes), depth_of(node.no)});
}

}  // namespace

int depth_below(const ExpressionNode& node) {
  return std::visit([](const auto& kind) { return below(kind); }, node);
}

}  // namespace gradmill::jinja
