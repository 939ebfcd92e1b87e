// SPDX-License-Identifier: Apache-2.0
#include "data/chat/chat_template_file.h"

#include <gtest/gtest.h>

#include "data/chat/chat_goldens.h"
#include "core/error.h"
#include "support/temporary_folder.h"

namespace gradmill {
namespace {

class ChatTemplateFile : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const { temporary_.write(name, text); }
  static std::string render(const ChatTemplate& chat) {
    ChatInput input;
    input.messages = jinja::make_list({}, {});
    return chat.render(input).text;
  }

  test::TemporaryFolder temporary_;
  std::filesystem::path folder = temporary_.path();
};

TEST_F(ChatTemplateFile, ReadsTextFromTheConfiguration) {
  write("tokenizer_config.json", R"({"chat_template": "A", "bos_token": {"content": "<s>", "lstrip": false},
      "eos_token": "</s>", "pad_token": null, "add_bos_token": true, "extra_special_tokens": {"image_token": "<i>"}})");
  const ChatFormat format = load_chat_template(folder);
  EXPECT_EQ(render(format.template_for(false)), "A");
  EXPECT_EQ(render(format.template_for(true)), "A");
  EXPECT_EQ(format.eos_token, "</s>");
  ASSERT_EQ(format.special_tokens.size(), 3u);
  EXPECT_EQ(format.special_tokens[0].first, "bos_token");
  EXPECT_EQ(format.special_tokens[0].second.text(), "<s>");
  EXPECT_EQ(format.special_tokens[2].first, "image_token");
}

TEST_F(ChatTemplateFile, ReadsNamedTemplates) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "D"},
      {"name": "tool_use", "template": "T"}, {"name": "rag", "template": "R"}]})");
  const ChatFormat format = load_chat_template(folder);
  EXPECT_EQ(render(format.template_for(false)), "D");
  EXPECT_EQ(render(format.template_for(true)), "T");
}

TEST_F(ChatTemplateFile, FilesOfTheirOwnComeFirst) {
  write("tokenizer_config.json", R"({"chat_template": "{{ broken"})");
  write("chat_template.jinja", "own\n");
  write("additional_chat_templates/tool_use.jinja", "tools");
  write("special_tokens_map.json", R"({"eos_token": {"content": "<end>"}})");
  const ChatFormat format = load_chat_template(folder);
  EXPECT_EQ(render(format.template_for(false)), "own");
  EXPECT_EQ(render(format.template_for(true)), "tools");
  EXPECT_EQ(format.eos_token, "<end>");
}

TEST_F(ChatTemplateFile, AFolderWithoutATemplateIsRefusedOnlyWhereOneIsNeeded) {
  write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  const ChatFormat format = load_chat_template(folder);
  EXPECT_EQ(format.eos_token, "</s>");
  EXPECT_NE(test::error_of([&] { format.template_for(false); }).find("no chat template"), std::string::npos);
  EXPECT_NO_THROW(load_chat_template(folder / "missing"));
}

TEST_F(ChatTemplateFile, ErrorsNameTheFile) {
  const auto error = [&] { return test::error_of([&] { load_chat_template(folder); }); };
  for (const char* text : {"", "[]", "{", R"({"chat_template": 5})", R"({"chat_template": [{"name": "default"}]})",
                           R"({"chat_template": ["a"]})", R"({"chat_template": "a\n{% if %}"})"}) {
    write("tokenizer_config.json", text);
    EXPECT_NE(error().find("tokenizer_config.json"), std::string::npos) << text << "\n" << error();
  }
  EXPECT_NE(error().find(":2: "), std::string::npos) << error();
}

}  // namespace
}  // namespace gradmill
