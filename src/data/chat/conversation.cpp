// SPDX-License-Identifier: Apache-2.0
#include "data/chat/conversation.h"

#include <fmt/format.h>

#include "data/chat/jinja/json.h"

namespace gradmill {
namespace {

using jinja::Value;

BadExample malformed(std::string_view field, std::string_view what) {
  return {BadRecord::malformed, fmt::format("field '{}' {}", field, what)};
}

BadExample missing(std::string_view field) { return {BadRecord::missing_field, fmt::format("no field '{}'", field)}; }

Value make_message(std::string_view role, Value content) {
  jinja::Dict message;
  message.insert("role", role);
  message.insert("content", std::move(content));
  return jinja::make_dict(std::move(message), {});
}

std::string_view sharegpt_role(std::string_view from) {
  struct Alias {
    std::string_view from, role;
  };
  constexpr Alias kAliases[] = {{"human", "user"},
                                {"user", "user"},
                                {"gpt", "assistant"},
                                {"chatgpt", "assistant"},
                                {"bing", "assistant"},
                                {"bard", "assistant"},
                                {"model", "assistant"},
                                {"assistant", "assistant"},
                                {"function_call", "assistant"},
                                {"system", "system"},
                                {"tool", "tool"},
                                {"observation", "tool"},
                                {"function_response", "tool"}};
  for (const Alias& alias : kAliases) {
    if (alias.from == from) return alias.role;
  }
  throw malformed("conversations", fmt::format("has the unknown speaker {}", shown_name(from)));
}

Value sharegpt_message(const Value& turn) {
  const auto member = [&](std::string_view name, std::string_view other) {
    const Value* found = turn.is_dict() ? turn.dict().find(name) : nullptr;
    return found != nullptr || !turn.is_dict() ? found : turn.dict().find(other);
  };
  const Value* from = member("from", "role");
  const Value* value = member("value", "content");
  if (from == nullptr || value == nullptr || !from->is_text() || !value->is_text()) {
    throw malformed("conversations", "must be a list of objects with the texts 'from' and 'value'");
  }
  return make_message(sharegpt_role(from->text()), *value);
}

}  // namespace

ExampleShape detect_shape(const Record& record) {
  const auto has = [&](std::string_view name) { return record.find(name) != nullptr; };
  if (has("input_ids")) return ExampleShape::tokenized;
  if (has("segments")) return ExampleShape::segments;
  if (has("messages")) return ExampleShape::messages;
  if (has("conversations")) return ExampleShape::sharegpt;
  if (has("prompt") && has("completion")) return ExampleShape::prompt_completion;
  if (has("instruction") && has("output")) return ExampleShape::alpaca;
  if (has("text")) return ExampleShape::text;
  throw BadExample(BadRecord::missing_field,
                   "no field that instruction data has: text, prompt and completion, messages, conversations, "
                   "instruction and output, segments, or input_ids");
}

Value field_value(const Record& record, std::string_view name, Nested nested) {
  const RecordField* field = record.find(name);
  if (field == nullptr) return {};
  if (!field->is_json && nested == Nested::no) return field->value;
  try {
    return jinja::parse_json(field->value);
  } catch (const jinja::Fault& fault) {
    throw malformed(name, fmt::format("is {}", fault.what()));
  }
}

std::string text_field(const Record& record, std::string_view name) {
  const RecordField* field = record.find(name);
  if (field == nullptr) throw missing(name);
  if (field->is_json) throw malformed(name, "must be a text");
  return field->value;
}

Value checked_messages(Value messages, std::string_view field) {
  if (messages.is_none()) throw missing(field);
  bool good = messages.is_list() && !messages.items().empty();
  for (size_t i = 0; good && i < messages.items().size(); ++i) {
    const Value& message = messages.items()[i];
    const Value* role = message.is_dict() ? message.dict().find("role") : nullptr;
    good = role != nullptr && role->is_text();
  }
  if (!good) throw malformed(field, "must be a list of objects, each with a role");
  return messages;
}

void read_extras(const Record& record, Conversation& conversation) {
  for (const auto& [name, place] :
       {std::pair{"tools", &conversation.tools}, std::pair{"documents", &conversation.documents}}) {
    *place = field_value(record, name, Nested::yes);
    if (!place->is_none() && !place->is_list()) throw malformed(name, "must be a list");
  }
  const Value kwargs = field_value(record, "chat_template_kwargs", Nested::yes);
  if (kwargs.is_none()) return;
  if (!kwargs.is_dict()) throw malformed("chat_template_kwargs", "must be an object");
  for (const auto& [name, value] : kwargs.dict().entries) conversation.variables.emplace_back(name.text(), value);
}

Conversation read_messages(const Record& record) {
  Conversation conversation;
  conversation.messages = checked_messages(field_value(record, "messages", Nested::yes), "messages");
  read_extras(record, conversation);
  return conversation;
}

Conversation read_sharegpt(const Record& record) {
  const Value turns = field_value(record, "conversations", Nested::yes);
  if (turns.is_none()) throw missing("conversations");
  if (!turns.is_list() || turns.items().empty()) throw malformed("conversations", "must be a list that is not empty");
  std::vector<Value> messages;
  const RecordField* system = record.find("system");
  if (system != nullptr && !system->is_json && !system->value.empty()) {
    messages.push_back(make_message("system", system->value));
  }
  for (const Value& turn : turns.items()) messages.push_back(sharegpt_message(turn));
  Conversation conversation;
  conversation.messages = jinja::make_list(std::move(messages), {});
  read_extras(record, conversation);
  return conversation;
}

PromptCompletion read_alpaca(const Record& record) {
  const std::string instruction = text_field(record, "instruction");
  const std::string input = record.find("input") == nullptr ? "" : text_field(record, "input");
  const std::string context = input.empty() ? "" : ", paired with an input that provides further context";
  const std::string input_part = input.empty() ? "" : fmt::format("### Input:\n{}\n\n", input);
  return {fmt::format("Below is an instruction that describes a task{}. Write a response that appropriately completes "
                      "the request.\n\n### Instruction:\n{}\n\n{}### Response:\n",
                      context, instruction, input_part),
          text_field(record, "output")};
}

Conversation read_alpaca_chat(const Record& record) {
  const std::string instruction = text_field(record, "instruction");
  const std::string input = record.find("input") == nullptr ? "" : text_field(record, "input");
  const std::string request = input.empty() ? instruction : instruction + "\n\n" + input;
  Conversation conversation;
  conversation.messages =
      jinja::make_list({make_message("user", request), make_message("assistant", text_field(record, "output"))}, {});
  return conversation;
}

}  // namespace gradmill
