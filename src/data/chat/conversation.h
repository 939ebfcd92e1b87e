// SPDX-License-Identifier: Apache-2.0
// Interprets the fields of a record in any of the common formats.
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

// Thrown for a record that cannot be used; says why.
class BadExample : public std::runtime_error {
 public:
  BadExample(BadRecord kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  BadRecord kind() const { return kind_; }

 private:
  BadRecord kind_;
};

// All of these functions throw BadExample.

// Detects the format from the names of the fields.
ExampleShape detect_shape(const Record& record);

// Returns a field, or None if it is missing. With Nested::yes, a text is parsed as JSON, because lists and objects are
// expected.
enum class Nested { no, yes };
jinja::Value field_value(const Record& record, std::string_view name, Nested nested);
// Returns a required text.
std::string text_field(const Record& record, std::string_view name);

struct Conversation {
  jinja::Value messages;
  jinja::Value tools;
  jinja::Value documents;
  std::vector<std::pair<std::string, jinja::Value>> variables;  // chat_template_kwargs
};

Conversation read_messages(const Record& record);
Conversation read_sharegpt(const Record& record);
// Checks that it is a list of objects, each with a role.
jinja::Value checked_messages(jinja::Value messages, std::string_view field);
// Reads tools, documents and chat_template_kwargs.
void read_extras(const Record& record, Conversation& conversation);

struct PromptCompletion {
  std::string prompt;
  std::string completion;
};
// Uses the wording of the Alpaca project.
PromptCompletion read_alpaca(const Record& record);
Conversation read_alpaca_chat(const Record& record);

}  // namespace gradmill
