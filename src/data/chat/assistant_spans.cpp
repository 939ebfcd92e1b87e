// SPDX-License-Identifier: Apache-2.0
#include "data/chat/assistant_spans.h"

#include "data/chat/jinja/text.h"
#include "core/error.h"

namespace gradmill {
namespace {

using jinja::Value;

// Each turn is rendered twice together with everything before it.
constexpr size_t kMaxTurns = 256;
constexpr size_t kMaxRenderedBytes = size_t{256} << 20;

bool is_assistant(const Value& message) {
  const Value* role = message.dict().find("role");
  return role != nullptr && role->is_text() && role->text() == "assistant";
}

Error refusal(const ChatTemplate& chat, std::string_view what) {
  return data_error(fmt::format("{}: cannot tell which part is the assistant's: {}", chat.name(), what),
                    "put {% generation %} and {% endgeneration %} around it in the template, or learn all tokens");
}

class GrowingConversation {
 public:
  GrowingConversation(const ChatTemplate& chat, const ChatInput& input) : chat_(chat), input_(input) {}

  std::string render(size_t num_messages, bool add_generation_prompt) {
    const auto& messages = input_.messages.items();
    ChatInput part = input_;
    part.messages = jinja::make_list({messages.begin(), messages.begin() + static_cast<ptrdiff_t>(num_messages)}, {});
    part.add_generation_prompt = add_generation_prompt;
    std::string text = chat_.render(part).text;
    num_bytes_ += text.size();
    if (num_bytes_ > kMaxRenderedBytes) throw refusal(chat_, "the conversation is too long to render it turn by turn");
    return text;
  }

 private:
  const ChatTemplate& chat_;
  const ChatInput& input_;
  size_t num_bytes_ = 0;
};

// The end token of a turn is learned, but not the line ends after it, since the model never generates them.
size_t turn_end(std::string_view text, ByteSpan span, std::string_view eos_token) {
  const std::string_view turn = text.substr(span.begin, span.end - span.begin);
  const std::string_view trimmed = jinja::strip(turn, jinja::Side::right);
  return !eos_token.empty() && trimmed.ends_with(eos_token) ? span.begin + trimmed.size() : span.end;
}

std::vector<ByteSpan> spans_by_turns(const ChatTemplate& chat, const ChatInput& input, std::string_view text,
                                     std::string_view eos_token) {
  std::vector<ByteSpan> spans;
  GrowingConversation growing(chat, input);
  const auto& messages = input.messages.items();
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!is_assistant(messages[i])) continue;
    if (spans.size() == kMaxTurns) throw refusal(chat, fmt::format("more than {} turns", kMaxTurns));
    const std::string before = growing.render(i, true);
    const std::string after = growing.render(i + 1, false);
    if (!after.starts_with(before)) {
      throw refusal(chat, fmt::format("message {} does not continue the prompt for it", i + 1));
    }
    if (!text.starts_with(after)) {
      throw refusal(chat, fmt::format("message {} reads differently once others follow it", i + 1));
    }
    const ByteSpan span{before.size(), after.size()};
    spans.push_back({span.begin, turn_end(text, span, eos_token)});
  }
  return spans;
}

}  // namespace

AssistantText assistant_text(const ChatTemplate& chat, const ChatInput& input, std::string_view eos_token) {
  Rendered rendered = chat.render(input);
  if (chat.has_generation_blocks()) return {std::move(rendered.text), std::move(rendered.assistant)};
  std::vector<ByteSpan> spans = spans_by_turns(chat, input, rendered.text, eos_token);
  return {std::move(rendered.text), std::move(spans)};
}

}  // namespace gradmill
