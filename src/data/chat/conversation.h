// SPDX-License-Identifier: Apache-2.0
// What the fields of a record say, in whichever of the usual shapes.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "data/chat/chat_template.h"
#include "data/chat/instruction_example.h"
#include "data/records/bad_records.h"
#include "data/records/record.h"

namespace gradmill {

// A record that cannot be used, and why.
class BadExample : public std::runtime_error {
 public:
  BadExample(BadRecord kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  BadRecord kind() const { return kind_; }

 private:
  BadRecord kind_;
};

// All of these throw BadExample.

// The shape that the fields tell.
ExampleShape detect_shape(const Record& record);

// A field; None where there is none. JSON in a text is read where `nested` says that lists and objects are meant.
enum class Nested { no, yes };
jinja::Value field_value(const Record& record, std::string_view name, Nested nested);
// A text that must be there.
std::string text_field(const Record& record, std::string_view name);

struct Conversation {
  jinja::Value messages;
  jinja::Value tools;
  jinja::Value documents;
  std::vector<std::pair<std::string, jinja::Value>> variables;  // chat_template_kwargs
};

Conversation read_messages(const Record& record);
Conversation read_sharegpt(const Record& record);
// Checks that it is a list of objects with a role each.
jinja::Value checked_messages(jinja::Value messages, std::string_view field);
// tools, documents and chat_template_kwargs.
void read_extras(const Record& record, Conversation& conversation);

struct PromptCompletion {
  std::string prompt;
  std::string completion;
};
// In the words of the Alpaca project.
PromptCompletion read_alpaca(const Record& record);
Conversation read_alpaca_chat(const Record& record);

}  // namespace gradmill
