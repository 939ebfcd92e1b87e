// SPDX-License-Identifier: Apache-2.0
#include "run/chat_prompt.h"

#include <nlohmann/json.hpp>

#include "data/chat/chat_template_file.h"
#include "data/chat/conversation.h"
#include "core/error.h"

namespace gradmill {
namespace {

Conversation read_conversation(const std::string& messages) {
  Record record;
  record.file = "messages";
  RecordField& field = record.add("messages");
  field.value = messages;
  field.is_json = true;
  try {
    return read_messages(record);
  } catch (const BadExample& fault) {
    throw data_error(fault.what(), R"(give a list such as [{"role": "user", "content": "Hello"}])");
  }
}

// The template's own end, and the other ends of turns that model families use.
std::vector<TokenId> ends_of_turns(const Tokenizer& tokenizer, const ChatFormat& format) {
  std::vector<TokenId> ids;
  for (const std::string_view name :
       {std::string_view(format.eos_token), std::string_view("<|im_end|>"), std::string_view("<|eot_id|>"),
        std::string_view("<end_of_turn>"), std::string_view("<|endoftext|>")}) {
    if (name.empty()) continue;
    if (const std::optional<TokenId> id = tokenizer.id(name)) ids.push_back(*id);
  }
  return ids;
}

}  // namespace

ChatPrompt chat_prompt(const RunTokenizer& tokenizer, const std::string& messages) {
  const ChatFormat format = tokenizer.folder.empty() ? ChatFormat{} : load_chat_template(tokenizer.folder);
  const Conversation conversation = read_conversation(messages);
  ChatInput input{.messages = conversation.messages,
                  .tools = conversation.tools,
                  .documents = conversation.documents,
                  .add_generation_prompt = true,
                  .variables = format.special_tokens,
                  .now = local_time()};
  for (const auto& variable : conversation.variables) input.variables.push_back(variable);
  const std::string text = format.template_for(!conversation.tools.is_none()).render(input).text;
  return {tokenizer.tokenizer->encode(text).ids, ends_of_turns(*tokenizer.tokenizer, format)};
}

std::string one_turn(const std::string& system, const std::string& user) {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", user}});
  return messages.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace gradmill
