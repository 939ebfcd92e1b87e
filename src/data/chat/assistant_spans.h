// SPDX-License-Identifier: Apache-2.0
// Which part of a rendered conversation the assistant wrote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_template.h"

namespace gradmill {

struct AssistantText {
  std::string text;  // the whole conversation
  std::vector<ByteSpan> spans;
};

// From the template's {% generation %} blocks. A template without them is rendered up to each turn of the assistant,
// with the prompt for it, and behind it: what comes in between is the assistant's, without white space behind
// `eos_token`. Throws a data_error where those texts are not beginnings of the whole: the template treats earlier turns
// differently from the last one, and only generation blocks can tell.
AssistantText assistant_text(const ChatTemplate& chat, const ChatInput& input, std::string_view eos_token);

}  // namespace gradmill
