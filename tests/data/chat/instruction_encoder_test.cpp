// SPDX-License-Identifier: Apache-2.0
#include "data/chat/instruction_encoder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/chat/chat_goldens.h"
#include "core/error.h"
#include "tokenizer/load_tokenizer.h"

namespace gradmill {
namespace {

using test::OrderedJson;

class Instructions : public testing::Test {
 protected:
  static std::shared_ptr<const Tokenizer> tokenizer() {
    static const auto loaded = load_tokenizer(test::chat_golden_path("tokenizer.json"));
    return loaded;
  }
  static ChatFormat format(const std::string& chat) {
    ChatFormat result;
    if (!chat.empty()) result.chat = test::golden_template(chat);
    result.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    result.eos_token = "</s>";
    return result;
  }
  static Record record(const OrderedJson& fields) {
    Record result;
    result.file = "data.jsonl";
    result.line = 7;
    for (const auto& [name, value] : fields.items()) {
      if (value.is_null()) continue;
      RecordField& field = result.add(name);
      field.is_json = !value.is_string();
      field.value = field.is_json ? value.dump() : value.get<std::string>();
    }
    return result;
  }
  std::optional<InstructionExample> encode(const OrderedJson& fields, const std::string& chat = "",
                                           const InstructionOptions& options = {}) {
    return InstructionEncoder(tokenizer(), format(chat), options).encode(record(fields), counts, bad);
  }
  std::string error(const OrderedJson& fields, const std::string& chat = "", const InstructionOptions& options = {}) {
    return test::error_of([&] { encode(fields, chat, options); });
  }
  // The text, with the learned parts in brackets.
  static std::string shown(const std::optional<InstructionExample>& example) {
    if (!example) return "nothing";
    std::string text;
    for (size_t i = 0; i < example->ids.size(); ++i) {
      const bool learned = example->learned[i] != 0;
      if (learned != (i > 0 && example->learned[i - 1] != 0)) text += learned ? "[" : "]";
      text += tokenizer()->decode({&example->ids[i], 1});
    }
    return text + (!example->learned.empty() && example->learned.back() != 0 ? "]" : "");
  }

  InstructionCounts counts;
  BadRecords bad{BadRecordPolicy::error};
};

const OrderedJson kTurns = {{{"role", "user"}, {"content", "Hi"}},
                            {{"role", "assistant"}, {"content", "Yes"}},
                            {{"role", "user"}, {"content", "Why"}},
                            {{"role", "assistant"}, {"content", "So"}}};

TEST_F(Instructions, TextEndsWithTheEndTokenOnce) {
  EXPECT_EQ(shown(encode({{"text", "Hello"}})), "[<s>Hello</s>]");
  EXPECT_EQ(shown(encode({{"text", "Hello</s>"}})), "[<s>Hello</s>]");
  EXPECT_EQ(shown(encode({{"text", "<s>Hello"}})), "[<s>Hello</s>]");
}

TEST_F(Instructions, PromptAndCompletionAreTokenizedAsOne) {
  for (const OrderedJson& golden : test::chat_golden("texts")) {
    const auto example = encode({{"prompt", golden["prompt"]}, {"completion", golden["completion"]}});
    ASSERT_TRUE(example.has_value());
    const auto ids = golden["ids"].get<std::vector<TokenId>>(),
               prompt = golden["prompt_ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(example->ids, ids);
    size_t num_shared = 0;
    while (num_shared < prompt.size() && prompt[num_shared] == ids[num_shared]) ++num_shared;
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(example->learned[i], i >= num_shared) << i;
  }
  EXPECT_GT(counts.num_split_prompts, 0);
  EXPECT_NE(counts.summary().find("the prompt's tokens are not the first"), std::string::npos);
  EXPECT_NE(counts.summary().find("'data.jsonl' line 7"), std::string::npos);
}

TEST_F(Instructions, AllOfAPromptCanBeLearned) {
  EXPECT_EQ(shown(encode({{"prompt", "Q:"}, {"completion", " A"}})), "<s>Q:[ A</s>]");
  EXPECT_EQ(shown(encode({{"prompt", "Q:"}, {"completion", " A"}}, "", {.completion_only = false})), "[<s>Q: A</s>]");
}

TEST_F(Instructions, PromptAndCompletionOfMessages) {
  const OrderedJson fields = {{"prompt", {kTurns[0], kTurns[1], kTurns[2]}}, {"completion", {kTurns[3]}}};
  EXPECT_EQ(
      shown(encode(fields, "llama3")),
      "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
      "Yes<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWhy<|eot_id|><|start_header_id|>assistant"
      "<|end_header_id|>\n\n[So<|eot_id|>]");
}

TEST_F(Instructions, AlpacaInItsOwnWordsOrAsChat) {
  const OrderedJson fields = {{"instruction", "Add"}, {"input", "1+1"}, {"output", "2"}};
  const std::string context = ", paired with an input that provides further context";
  const std::string request =
      ". Write a response that appropriately completes the request.\n\n### Instruction:\nAdd\n\n";
  EXPECT_EQ(shown(encode(fields)), "<s>Below is an instruction that describes a task" + context + request +
                                       "### Input:\n1+1\n\n### Response:\n[2</s>]");
  EXPECT_EQ(shown(encode({{"instruction", "Add"}, {"input", ""}, {"output", "2"}})),
            "<s>Below is an instruction that describes a task" + request + "### Response:\n[2</s>]");
  EXPECT_EQ(shown(encode(fields, "zephyr", {.alpaca_as_chat = true})),
            "<|user|>\nAdd\n\n1+1</s>\n<|assistant|>\n[2</s>]\n");
}

TEST_F(Instructions, ShareGpt) {
  const OrderedJson fields = {
      {"system", "Be"}, {"conversations", {{{"from", "human"}, {"value", "Hi"}}, {{"from", "gpt"}, {"value", "Yes"}}}}};
  EXPECT_EQ(
      shown(encode(fields, "smollm2")),
      "<|im_start|>system\nBe<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Yes<|im_end|>\n]");
  EXPECT_NE(
      error({{"conversations", {{{"from", "dog"}, {"value", "Wau"}}}}}, "smollm2").find("the unknown speaker 'dog'"),
      std::string::npos);
}

TEST_F(Instructions, TurnsWithoutGenerationBlocksAreFoundByRenderingThem) {
  ChatFormat own = format("smollm2");
  own.eos_token = "<|im_end|>";
  const InstructionEncoder encoder(tokenizer(), own, {});
  EXPECT_EQ(shown(encoder.encode(record({{"messages", kTurns}}), counts, bad)),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Yes<|im_end|>]\n"
            "<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\n[So<|im_end|>]\n");
  EXPECT_EQ(
      shown(encode({{"messages", {kTurns[0], kTurns[1]}}}, "llama3", {.assistant_only = false})),
      "[<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
      "Yes<|eot_id|>]");
}

TEST_F(Instructions, TemplatesThatRewriteEarlierTurnsAreRefused) {
  OrderedJson thinking = kTurns;
  thinking[1]["content"] = thinking[3]["content"] = "<think>\nhm\n</think>\n\nYes";
  const std::string message = error({{"messages", thinking}}, "qwen3");
  EXPECT_EQ(
      message,
      "'data.jsonl' line 7: qwen3: cannot tell which part is the assistant's: message 2 reads differently once others "
      "follow it; put {% generation %} and {% endgeneration %} around it in the template, or learn all tokens; "
      "correct it, or have bad records skipped");
  EXPECT_TRUE(encode({{"messages", thinking}}, "qwen3_training").has_value());
}

TEST_F(Instructions, GenerationBlocksGiveHuggingFacesMasks) {
  const OrderedJson goldens = test::chat_golden("conversations");
  size_t num_learned = 0;
  for (const OrderedJson& golden : test::chat_golden("masks")) {
    const std::string name = golden["template"], input = golden["input"];
    OrderedJson fields = goldens["inputs"][input];
    if (fields.value("add_generation_prompt", false)) continue;  // not used in training
    if (fields.contains("enable_thinking"))
      fields["chat_template_kwargs"] = {{"enable_thinking", fields["enable_thinking"]}};
    const auto example = encode(fields, name, {.max_length = 0, .now = test::golden_time()});
    const std::string mask = golden["mask"];
    if (mask.find('1') == std::string::npos) {
      EXPECT_FALSE(example.has_value()) << name << " " << input;
      continue;
    }
    ASSERT_TRUE(example.has_value()) << name << " " << input;
    EXPECT_EQ(example->ids, golden["ids"].get<std::vector<TokenId>>()) << name << " " << input;
    std::string learned;
    for (const uint8_t flag : example->learned) learned += flag != 0 ? '1' : '0';
    EXPECT_EQ(learned, mask) << name << " " << input << "\n" << shown(example);
    ++num_learned;
  }
  EXPECT_GT(num_learned, 15u);
}

TEST_F(Instructions, ToolsMayBeTextAndVariablesComeFromTheRecord) {
  const OrderedJson tools = {
      {{"type", "function"}, {"function", {{"name", "f"}, {"parameters", OrderedJson::object()}}}}};
  const OrderedJson messages = {kTurns[0], kTurns[1]};
  const auto as_list = encode({{"messages", messages}, {"tools", tools}}, "qwen2_5", {.max_length = 0});
  const auto as_text = encode({{"messages", messages}, {"tools", tools.dump()}}, "qwen2_5", {.max_length = 0});
  EXPECT_NE(shown(as_list).find(R"({"type": "function", "function": {"name": "f", "parameters": {}}})"),
            std::string::npos);
  EXPECT_EQ(shown(as_list), shown(as_text));
  const OrderedJson date = {{"messages", messages}, {"chat_template_kwargs", {{"date_string", "1 May 2026"}}}};
  EXPECT_NE(shown(encode(date, "llama3_2")).find("Today Date: 1 May 2026"), std::string::npos);
}

TEST_F(Instructions, SegmentsAreTokenizedOneByOne) {
  EXPECT_EQ(shown(encode({{"segments", {{{"text", "<s>Hel"}, {"label", false}}, {{"text", "lo"}, {"label", true}}}}})),
            "<s>Hel[lo]");
  EXPECT_NE(error({{"segments", {{{"text", "a"}}}}}).find("'segments' must be"), std::string::npos);
  EXPECT_NE(error({{"segments", OrderedJson::array()}}).find("'segments' must be"), std::string::npos);
}

TEST_F(Instructions, TokensAreTakenAsTheyAre) {
  const auto learned = [&](const OrderedJson& fields) { return encode(fields).value().learned; };
  using Flags = std::vector<uint8_t>;
  EXPECT_EQ(learned({{"input_ids", {5, 6, 7}}}), Flags({1, 1, 1}));
  EXPECT_EQ(learned({{"input_ids", {5, 6, 7}}, {"labels", {-100, -100, 7}}}), Flags({0, 0, 1}));
  EXPECT_EQ(learned({{"input_ids", {5, 6, 7}}, {"attention_mask", {1, 1, 0}}}), Flags({1, 1}));
  EXPECT_EQ(learned({{"input_ids", {5, 6, 7}}, {"completion_mask", {0, 1, 1}}, {"assistant_masks", {1, 0, 1}}}),
            Flags({0, 0, 1}));
  EXPECT_NE(error({{"input_ids", {5, 6}}, {"labels", {5}}}).find("'labels' has 1 numbers for 2 tokens"),
            std::string::npos);
  EXPECT_NE(error({{"input_ids", {5, 6}}, {"labels", {5, 7}}}).find("label 1 is 7"), std::string::npos);
  EXPECT_NE(error({{"input_ids", {5, 100000}}}).find("token 1 is 100000"), std::string::npos);
  EXPECT_NE(error({{"input_ids", {5, -1}}}).find("token 1 is -1"), std::string::npos);
  EXPECT_NE(error({{"input_ids", {5, "a"}}}).find("a list of integers"), std::string::npos);
}

TEST_F(Instructions, LongExamplesLoseTheirEndAndMaskedOnesAreLeftOut) {
  EXPECT_EQ(shown(encode({{"input_ids", {5, 6, 7}}}, "", {.max_length = 2})), shown(encode({{"input_ids", {5, 6}}})));
  EXPECT_EQ(counts.num_truncated, 1);
  EXPECT_FALSE(encode({{"input_ids", {5, 6, 7}}, {"labels", {-100, -100, 7}}}, "", {.max_length = 2}).has_value());
  EXPECT_FALSE(encode({{"messages", {kTurns[0]}}}, "smollm2").has_value());
  EXPECT_FALSE(encode({{"input_ids", {5, 6}}, {"labels", {5, -100}}}).has_value());  // the first is never a target
  EXPECT_EQ(counts.num_masked, 3);
  EXPECT_EQ(counts.num_examples, 5);
  EXPECT_EQ(counts.summary(),
            "2 of 5 examples were cut at the maximal length; 3 were skipped, because nothing in them is learned (the "
            "first: 'data.jsonl' line 7)");
  InstructionCounts all;
  all.merge(counts);
  all.merge(counts);
  EXPECT_EQ(all.num_masked, 6);
}

TEST_F(Instructions, ShapesCanBeChosen) {
  const OrderedJson both = {{"text", "Hello"}, {"input_ids", {5, 6, 7}}};
  EXPECT_EQ(encode(both)->ids.size(), 3u);
  EXPECT_EQ(shown(encode(both, "", {.shape = ExampleShape::text})), "[<s>Hello</s>]");
  EXPECT_THROW(InstructionEncoder(tokenizer(), format(""), {.max_length = -1}), Error);
}

TEST_F(Instructions, BadRecordsAreNamedOrSkipped) {
  EXPECT_NE(error({{"body", "x"}}).find("'data.jsonl' line 7: no field that instruction data has"), std::string::npos);
  EXPECT_NE(error({{"prompt", "x"}}, "", {.shape = ExampleShape::prompt_completion}).find("no field 'completion'"),
            std::string::npos);
  EXPECT_NE(error({{"text", 5}}).find("'text' must be a text"), std::string::npos);
  EXPECT_NE(error({{"messages", "[{"}}, "smollm2").find("'messages' is not valid JSON"), std::string::npos);
  EXPECT_NE(error({{"messages", OrderedJson::array()}}, "smollm2").find("'messages' must be a list"),
            std::string::npos);
  EXPECT_NE(error({{"messages", {{{"content", "a"}}}}}, "smollm2").find("each with a role"), std::string::npos);
  EXPECT_NE(error({{"messages", {kTurns[0]}}, {"tools", 5}}, "smollm2").find("'tools' must be a list"),
            std::string::npos);
  EXPECT_NE(error({{"messages", kTurns}}).find("no chat template"), std::string::npos);
  EXPECT_NE(error({{"messages", {kTurns[1], kTurns[0]}}}, "gemma2").find("Conversation roles must alternate"),
            std::string::npos);
  bad = BadRecords(BadRecordPolicy::skip);
  EXPECT_FALSE(encode({{"body", "x"}}).has_value());
  EXPECT_FALSE(encode({{"messages", {kTurns[1], kTurns[0]}}}, "gemma2").has_value());
  EXPECT_EQ(bad.num_skipped(BadRecord::missing_field), 1);
  EXPECT_EQ(bad.num_skipped(BadRecord::not_encodable), 1);
}

}  // namespace
}  // namespace gradmill
