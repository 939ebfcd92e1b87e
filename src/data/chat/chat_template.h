// SPDX-License-Identifier: Apache-2.0
// ChatTemplate: renders a conversation with the template that comes with a model. Templates are written in the subset
// of Jinja that Hugging Face documents for `apply_chat_template`; the results are the same.
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
  jinja::Value documents;  // also a list of dicts, or None
  bool add_generation_prompt = false;
  std::vector<std::pair<std::string, jinja::Value>> variables = {};  // further variables, such as bos_token or
                                                                     // enable_thinking
  std::tm now = {};                                                  // the time that strftime_now shows
};

struct Rendered {
  std::string text;
  // The output of {% generation %} blocks, in order: the parts that the assistant wrote.
  std::vector<ByteSpan> assistant;
};

// Immutable and cheap to copy; threads may share one.
class ChatTemplate {
 public:
  // `name` is the file name for messages. Throws a data_error that names the line and the problem.
  static ChatTemplate parse(std::string source, std::string name, const jinja::Limits& limits = {});

  // Time and memory are limited, whatever the template does. Throws a data_error that names the line if the template
  // cannot process the input, calls raise_exception, or exceeds a limit.
  Rendered render(const ChatInput& input) const;

  bool has_generation_blocks() const { return parsed_->has_generation; }
  const std::string& name() const { return name_; }

 private:
  ChatTemplate() = default;

  std::shared_ptr<const jinja::Template> parsed_;  // shared by all copies
  std::string name_;
  jinja::Limits limits_;
};

// The current local time.
std::tm local_time();

}  // namespace gradmill
