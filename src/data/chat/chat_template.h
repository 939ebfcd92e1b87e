// SPDX-License-Identifier: Apache-2.0
// ChatTemplate: a conversation to text, as the template that comes with a model says. Templates are written in Jinja;
// docs of Hugging Face's `apply_chat_template` say which of it they use, and results here are the same.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/chat/jinja/renderer.h"
#include "data/chat/jinja/value.h"

namespace gradmill {

// Bytes [begin, end) of a text.
using ByteSpan = jinja::Span;

struct ChatInput {
  jinja::Value messages;   // a list of dicts
  jinja::Value tools;      // a list of dicts, or None
  jinja::Value documents;  // the same
  bool add_generation_prompt = false;
  std::vector<std::pair<std::string, jinja::Value>> variables = {};  // others, such as bos_token or enable_thinking
  std::tm now = {};                                                  // what strftime_now shows
};

struct Rendered {
  std::string text;
  // What {% generation %} blocks made, in order: the part that an assistant wrote.
  std::vector<ByteSpan> assistant;
};

// Immutable and cheap to copy: threads may share one.
class ChatTemplate {
 public:
  // `name` is the file, for messages. Throws a data_error that says the line and what is wrong.
  static ChatTemplate parse(std::string source, std::string name, const jinja::Limits& limits = {});

  // Bounded in time and memory whatever the template does. Throws a data_error that says the line: for what the
  // template cannot do with the input, for what it refuses with raise_exception, and for a limit.
  Rendered render(const ChatInput& input) const;

  bool has_generation_blocks() const { return parsed_->has_generation; }
  const std::string& name() const { return name_; }

 private:
  ChatTemplate() = default;

  std::shared_ptr<const jinja::Template> parsed_;  // shared by copies
  std::string name_;
  jinja::Limits limits_;
};

// The local time now.
std::tm local_time();

}  // namespace gradmill
