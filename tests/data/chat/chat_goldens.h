// SPDX-License-Identifier: Apache-2.0
// Reads the files of tools/make_chat_goldens.py, which documents their contents.
#pragma once

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "data/chat/chat_template.h"
#include "data/chat/jinja/json.h"
#include "support/goldens.h"

namespace gradmill::test {

using OrderedJson = nlohmann::ordered_json;

inline std::filesystem::path chat_golden_path(const std::string& name) {
  return golden_path("chat").replace_extension() / name;
}

inline std::string read_chat_golden(const std::string& name) {
  std::ifstream file(chat_golden_path(name), std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline OrderedJson chat_golden(const std::string& name) { return OrderedJson::parse(read_chat_golden(name + ".json")); }

inline ChatTemplate golden_template(const std::string& name) {
  return ChatTemplate::parse(read_chat_golden("templates/" + name + ".jinja"), name);
}

// Tuesday, 2025-03-04 15:06:07
inline std::tm golden_time() {
  std::tm time = {};
  time.tm_year = 125;
  time.tm_mon = 2;
  time.tm_mday = 4;
  time.tm_hour = 15;
  time.tm_min = 6;
  time.tm_sec = 7;
  time.tm_wday = 2;
  time.tm_yday = 62;
  return time;
}

// Variables by name, possibly including those that every template has.
inline ChatInput chat_input(const OrderedJson& variables) {
  ChatInput input;
  input.messages = jinja::make_list({}, {});
  input.now = golden_time();
  for (const auto& [name, json] : variables.items()) {
    jinja::Value value = jinja::parse_json(json.dump());
    if (name == "messages")
      input.messages = value;
    else if (name == "tools")
      input.tools = value;
    else if (name == "documents")
      input.documents = value;
    else if (name == "add_generation_prompt")
      input.add_generation_prompt = value.boolean();
    else
      input.variables.emplace_back(name, value);
  }
  return input;
}

inline std::string render(const std::string& source, const OrderedJson& variables = OrderedJson::object(),
                          const jinja::Limits& limits = {}) {
  return ChatTemplate::parse(source, "test.jinja", limits).render(chat_input(variables)).text;
}

// Returns the error message; empty if there is no error.
template <typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

inline OrderedJson span_list(const std::vector<ByteSpan>& spans) {
  OrderedJson list = OrderedJson::array();
  for (const ByteSpan& span : spans) list.push_back({span.begin, span.end});
  return list;
}

}  // namespace gradmill::test
