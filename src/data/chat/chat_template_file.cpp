// SPDX-License-Identifier: Apache-2.0
#include "data/chat/chat_template_file.h"

#include "data/chat/jinja/json.h"
#include "core/error.h"
#include "files/file_io.h"

namespace gradmill {
namespace {

using jinja::Value;
namespace fs = std::filesystem;

// Files with many added tokens have a few megabytes.
constexpr int64_t kMaxFileBytes = int64_t{64} << 20;

std::string read_file(const fs::path& path) { return read_whole(path, kMaxFileBytes, "it is not such a file"); }

// Returns None if the file does not exist.
Value read_object(const fs::path& path) {
  if (!fs::exists(path)) return {};
  Value value;
  try {
    value = jinja::parse_json(read_file(path));
  } catch (const jinja::Fault& fault) {
    throw data_error(fmt::format("'{}': {}", path.string(), fault.what()), "get the file again");
  }
  if (!value.is_dict()) throw data_error(fmt::format("'{}' is not a JSON object", path.string()), "get the file again");
  return value;
}

// A token in a file is a text, or an object that contains the text.
const Value* token_text(const Value& value) {
  const Value* text = value.is_dict() ? value.dict().find("content") : &value;
  return text != nullptr && text->is_text() ? text : nullptr;
}

bool has(const ChatFormat& format, std::string_view name) {
  for (const auto& [known, value] : format.special_tokens) {
    if (known == name) return true;
  }
  return false;
}

void add_tokens(ChatFormat& format, const Value& object) {
  if (!object.is_dict()) return;
  for (const auto& [key, value] : object.dict().entries) {
    const std::string& name = key.text();
    if (name == "extra_special_tokens") {
      add_tokens(format, value);
    } else if (name.ends_with("_token") && !has(format, name)) {
      if (const Value* text = token_text(value)) format.special_tokens.emplace_back(name, *text);
    }
  }
}

void add_named_templates(ChatFormat& format, const Value& list, const std::string& where) {
  for (const Value& entry : list.items()) {
    const Value* name = entry.is_dict() ? entry.dict().find("name") : nullptr;
    const Value* source = entry.is_dict() ? entry.dict().find("template") : nullptr;
    if (name == nullptr || source == nullptr || !name->is_text() || !source->is_text()) {
      throw data_error(fmt::format("{}: an entry without a name and a template", where), "get the file again");
    }
    if (name->text() == "default") format.chat = ChatTemplate::parse(source->text(), where + " default");
    if (name->text() == "tool_use") format.tool_use = ChatTemplate::parse(source->text(), where + " tool_use");
  }
}

void add_config_templates(ChatFormat& format, const Value& config, const fs::path& path) {
  const Value* chat = config.is_dict() ? config.dict().find("chat_template") : nullptr;
  if (chat == nullptr || chat->is_none()) return;
  const std::string where = path.string() + " chat_template";
  if (chat->is_text())
    format.chat = ChatTemplate::parse(chat->text(), where);
  else if (chat->is_list())
    add_named_templates(format, *chat, where);
  else
    throw data_error(fmt::format("{} is neither a text nor a list", where), "get the file again");
}

}  // namespace

const ChatTemplate& ChatFormat::template_for(bool with_tools) const {
  if (with_tools && tool_use) return *tool_use;
  if (!chat) {
    throw data_error("the tokenizer has no chat template, which conversations need",
                     "put a chat_template.jinja into its folder");
  }
  return *chat;
}

ChatFormat load_chat_template(const fs::path& folder) {
  ChatFormat format;
  const fs::path config_path = folder / "tokenizer_config.json";
  const Value config = read_object(config_path);
  const fs::path own = folder / "chat_template.jinja";
  const fs::path own_tool_use = folder / "additional_chat_templates" / "tool_use.jinja";
  if (fs::exists(own))
    format.chat = ChatTemplate::parse(read_file(own), own.string());
  else
    add_config_templates(format, config, config_path);
  if (fs::exists(own_tool_use)) format.tool_use = ChatTemplate::parse(read_file(own_tool_use), own_tool_use.string());
  add_tokens(format, config);
  add_tokens(format, read_object(folder / "special_tokens_map.json"));
  for (const auto& [name, value] : format.special_tokens) {
    if (name == "eos_token") format.eos_token = value.text();
  }
  return format;
}

}  // namespace gradmill
