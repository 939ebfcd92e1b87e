// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a chat template, followed by a NUL byte and JSON of the messages. Errors are allowed, but
// no crash, leak or runaway. Seeds are in tests/goldens/chat/templates, words in chat_template.dict:
// chat_template_fuzz -dict=tests/fuzz/chat_template.dict -max_len=4096 -runs=1000000 CORPUS
// tests/goldens/chat/templates
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "data/chat/chat_template.h"
#include "data/chat/jinja/json.h"
#include "core/error.h"

namespace {

using namespace gradmill;

constexpr std::string_view kMessages = R"([
  {"role": "system", "content": "Be é 😀"}, {"role": "user", "content": " Hi <b> "},
  {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5]}}}]},
  {"role": "tool", "content": "{}"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes"}])";
constexpr std::string_view kTools =
    R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])";

// Small enough for thousands of templates per second, with all limits within reach.
jinja::Limits small_limits() {
  jinja::Limits limits;
  limits.max_work = 20000;
  limits.max_output_bytes = 1 << 16;
  return limits;
}

ChatInput make_input(std::string_view messages) {
  ChatInput input;
  input.messages = jinja::parse_json(messages);
  input.tools = jinja::parse_json(kTools);
  input.add_generation_prompt = true;
  input.variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"n", 3}};
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t nul = bytes.find('\0');
  const std::string_view messages = nul == std::string_view::npos ? kMessages : bytes.substr(nul + 1);
  try {
    const ChatTemplate chat = ChatTemplate::parse(std::string(bytes.substr(0, nul)), "fuzz", small_limits());
    const Rendered rendered = chat.render(make_input(messages));
    for (const ByteSpan& span : rendered.assistant) {
      if (span.begin > span.end || span.end > rendered.text.size()) __builtin_trap();
    }
  } catch (const Error&) {
  } catch (const jinja::Fault&) {  // in the messages
  }
  return 0;
}
