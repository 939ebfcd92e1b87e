// SPDX-License-Identifier: Apache-2.0
#include "data/chat/chat_template.h"

#include <array>

#include "data/chat/jinja/parser.h"
#include "data/chat/jinja/python.h"
#include "core/error.h"

namespace gradmill {
namespace {

using jinja::Value;

// Messages store an assistant's reasoning under one of three names, and templates read only one of them.
Value with_reasoning(const Value& message, const jinja::Limits& limits) {
  constexpr std::array<std::string_view, 3> kNames = {"reasoning_content", "thinking", "reasoning"};
  const Value* reasoning = nullptr;
  for (const std::string_view name : kNames) {
    const Value* found = message.dict().find(name);
    if (found != nullptr && !found->is_none()) {
      reasoning = found;
      break;
    }
  }
  if (reasoning == nullptr) return message;
  jinja::Dict dict;
  dict.insert("thinking", *reasoning);
  for (const auto& [key, value] : message.dict().entries) dict.insert(key, value);
  dict.insert("reasoning_content", *reasoning);
  return jinja::make_dict(std::move(dict), limits);
}

Value with_reasoning_everywhere(const Value& messages, const jinja::Limits& limits) {
  if (!messages.is_list()) throw jinja::Fault("messages must be a list of objects");
  std::vector<Value> items;
  for (const Value& message : messages.items()) {
    if (!message.is_dict()) throw jinja::Fault("messages must be a list of objects");
    items.push_back(with_reasoning(message, limits));
  }
  return jinja::make_list(std::move(items), limits);
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string source, std::string name, const jinja::Limits& limits) {
  ChatTemplate result;
  result.limits_ = limits;
  try {
    result.parsed_ = std::make_shared<const jinja::Template>(jinja::parse_template(source, limits));
  } catch (const jinja::SyntaxFault& fault) {
    throw data_error(fmt::format("{}:{}: {}", name, fault.line, fault.what), "correct the chat template");
  }
  result.name_ = std::move(name);
  return result;
}

Rendered ChatTemplate::render(const ChatInput& input) const {
  jinja::Renderer renderer(*parsed_, limits_, input.now);
  try {
    std::vector<std::pair<std::string, Value>> variables = {
        {"messages", with_reasoning_everywhere(input.messages, limits_)},
        {"tools", input.tools},
        {"documents", input.documents},
        {"add_generation_prompt", input.add_generation_prompt}};
    variables.insert(variables.end(), input.variables.begin(), input.variables.end());
    renderer.run(variables);
  } catch (const jinja::Fault& fault) {
    throw data_error(fmt::format("{}:{}: {}", name_, renderer.line(), fault.what()),
                     "correct the conversation or the chat template");
  }
  return {renderer.take_text(), renderer.take_generated()};
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  return local;
}

}  // namespace gradmill
