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
  std::optional<ChatTemplate> chat;      // empty if the folder has no template
  std::optional<ChatTemplate> tool_use;  // a separate template for conversations with tools, if the folder has one
  std::vector<std::pair<std::string, jinja::Value>> special_tokens;  // variables for templates, such as bos_token
  std::string eos_token;                                             // empty if the folder defines none

  // Throws a data_error if there is no template.
  const ChatTemplate& template_for(bool with_tools) const;
};

// Reads chat_template.jinja or, if it is missing, `chat_template` in tokenizer_config.json: a text, or a list of {name,
// template}. Special tokens come from tokenizer_config.json, otherwise from special_tokens_map.json. A folder may lack
// all of these files. Throws a data_error that names the file and the problem.
ChatFormat load_chat_template(const std::filesystem::path& folder);

}  // namespace gradmill
