// SPDX-License-Identifier: Apache-2.0
// Compares templates with Jinja and with Hugging Face's apply_chat_template.
#include "data/chat/chat_template.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/chat/chat_goldens.h"
#include "core/error.h"

namespace gradmill {
namespace {

using test::OrderedJson;

TEST(ChatTemplate, DoesWhatJinjaDoes) {
  const OrderedJson cases = test::chat_golden("cases");
  ASSERT_GT(cases.size(), 250u);
  for (const OrderedJson& golden : cases) {
    const std::string source = golden["template"];
    std::optional<Rendered> rendered;
    const std::string error = test::error_of(
        [&] { rendered = ChatTemplate::parse(source, "test.jinja").render(test::chat_input(golden["input"])); });
    if (golden.contains("error")) {
      EXPECT_FALSE(rendered.has_value()) << source << "\n" << golden["error"];
      EXPECT_TRUE(error.starts_with("test.jinja:1: ")) << source << "\n" << error;
      continue;
    }
    ASSERT_TRUE(rendered.has_value()) << source << "\n" << error;
    EXPECT_EQ(rendered->text, golden["expected"].get<std::string>()) << source;
    EXPECT_EQ(test::span_list(rendered->assistant), golden.value("spans", OrderedJson::array())) << source;
  }
}

std::string fnv(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return fmt::format("#{:016x}", hash);
}

TEST(ChatTemplate, RendersTemplatesOfRealModels) {
  const OrderedJson goldens = test::chat_golden("conversations");
  ASSERT_GT(goldens["rendered"].size(), 25u);
  size_t num_rendered = 0;
  for (const auto& [name, expected] : goldens["rendered"].items()) {
    const ChatTemplate chat = test::golden_template(name);
    for (const auto& [input_name, expected_text] : expected.items()) {
      const std::string where = name + " " + input_name;
      OrderedJson variables = goldens["special_tokens"];
      variables.update(goldens["inputs"][input_name]);
      if (expected_text.is_null()) {
        EXPECT_THROW(chat.render(test::chat_input(variables)), Error) << where;
        continue;
      }
      const Rendered rendered = chat.render(test::chat_input(variables));
      const std::string text = expected_text;
      EXPECT_EQ(text.starts_with('#') ? fnv(rendered.text) : rendered.text, text) << where << "\n" << rendered.text;
      const OrderedJson spans =
          goldens["spans"].value(name, OrderedJson::object()).value(input_name, OrderedJson::array());
      EXPECT_EQ(test::span_list(rendered.assistant), spans) << where;
      ++num_rendered;
    }
  }
  EXPECT_GT(num_rendered, 200u);
}

TEST(ChatTemplate, ErrorsNameTemplateLineAndCause) {
  const auto error = [](const std::string& source) { return test::error_of([&] { test::render(source); }); };
  EXPECT_EQ(error("a\n{% if x %}\nb"), "test.jinja:2: a block is not closed by {% endif %}; correct the chat template");
  EXPECT_EQ(error("a\n\n{{ 1 + }}"), "test.jinja:3: expected a value, found }}; correct the chat template");
  EXPECT_EQ(error("{% include 'x' %}"),
            "test.jinja:1: the tag 'include' stands in the wrong place or is not supported; correct the chat template");
  EXPECT_EQ(error("\n{{ messages[0].content }}"),
            "test.jinja:2: the list has no item 0; correct the conversation or the chat template");
  EXPECT_EQ(error("{% for x in [1] %}\n{{ nope.x }}\n{% endfor %}"),
            "test.jinja:2: 'nope' is undefined; correct the conversation or the chat template");
  EXPECT_EQ(
      error("\n\n{{ raise_exception('Roles must alternate') }}"),
      "test.jinja:3: the template refuses the conversation: Roles must alternate; correct the conversation or the "
      "chat template");
  EXPECT_EQ(
      error("{{ [1].append(2) }}"),
      "test.jinja:1: a template may not change a list; use a namespace, or make a new value as in x + [y]; correct "
      "the conversation or the chat template");
  EXPECT_EQ(error("{{ strftime_now('%Q') }}").find("test.jinja:1: strftime_now knows %Y"), 0u);
  EXPECT_EQ(
      error("{% set x %}{% generation %}a{% endgeneration %}{% endset %}").find("test.jinja:1: a {% generation %}"),
      0u);
  EXPECT_EQ(error("\xff"), "test.jinja:1: the template is not valid UTF-8; correct the chat template");
}

TEST(ChatTemplate, MessagesMustBeObjects) {
  const ChatTemplate chat = ChatTemplate::parse("x", "test.jinja");
  for (const char* messages : {"1", "[1]", "[[]]", "null"}) {
    ChatInput input;
    input.messages = jinja::parse_json(messages);
    EXPECT_THROW(chat.render(input), Error) << messages;
  }
}

TEST(ChatTemplate, ReasoningIsFoundUnderAnyOfItsNames) {
  for (const char* name : {"reasoning", "thinking", "reasoning_content"}) {
    const OrderedJson variables = {{"messages", {{{"role", "assistant"}, {name, "why"}}}}};
    EXPECT_EQ(test::render("{{ messages[0].reasoning_content }} {{ messages[0].thinking }}", variables), "why why");
  }
}

}  // namespace
}  // namespace gradmill
