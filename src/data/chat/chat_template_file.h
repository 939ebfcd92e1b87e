// SPDX-License-Identifier: Apache-2.0
// The chat template and the special tokens of a tokenizer folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/chat/chat_template.h"

namespace gradmill {

struct ChatFormat {
  std::optional<ChatTemplate> chat;      // nothing where the folder has no template
  std::optional<ChatTemplate> tool_use;  // for conversations with tools, where the folder has one of its own
  std::vector<std::pair<std::string, jinja::Value>> special_tokens;  // bos_token and its like, as templates see them
  std::string eos_token;                                             // empty where the folder names none

  // Throws a data_error where there is no template.
  const ChatTemplate& template_for(bool with_tools) const;
};

// chat_template.jinja, or else `chat_template` in tokenizer_config.json: a text, or a list of {name, template}. The
// tokens come from tokenizer_config.json, or else special_tokens_map.json. A folder may have none of these files.
// Throws a data_error that names the file and what in it cannot be used.
ChatFormat load_chat_template(const std::filesystem::path& folder);

}  // namespace gradmill
