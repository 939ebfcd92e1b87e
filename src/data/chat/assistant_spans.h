// SPDX-License-Identifier: Apache-2.0
// Finds the parts of a rendered conversation that the assistant wrote.
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

// Uses the template's {% generation %} blocks. If it has none, the conversation is rendered before each assistant turn
// (with the generation prompt) and after it; the text in between belongs to the assistant, except white space after
// `eos_token`. Throws a data_error if these texts are not prefixes of the whole conversation: then the template renders
// earlier turns differently from the last one, and only generation blocks can mark the parts.
AssistantText assistant_text(const ChatTemplate& chat, const ChatInput& input, std::string_view eos_token);

}  // namespace gradmill
