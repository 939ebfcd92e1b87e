// SPDX-License-Identifier: Apache-2.0
// Files that must be refused, each with a message that names the file and the problem.
#include "tokenizer/tokenizer_file.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/tokenizer_goldens.h"

namespace gradmill {
namespace {

using nlohmann::json;

json small_file() {
  return json::parse(R"({
    "added_tokens": [{"id": 5, "content": "<s>", "special": true}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
  })");
}

std::string refusal(const std::string& text) {
  try {
    parse_tokenizer_json(text, "t.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    return error.what();
  }
  return "accepted";
}

TEST(TokenizerFile, ReadsASmallOne) {
  const auto tokenizer = parse_tokenizer_json(small_file().dump(), "t.json");
  EXPECT_EQ(tokenizer->encode("ab<s>ba").ids, (std::vector<TokenId>{2, 5, 1, 0}));
  EXPECT_EQ(tokenizer->vocab_size(), 6);
  EXPECT_EQ(tokenizer->token(3), std::nullopt);
  EXPECT_EQ(tokenizer->id("none"), std::nullopt);
}

TEST(TokenizerFile, RefusesWhatIsMalformedOrUnknown) {
  struct Case {
    std::string part;  // of the message
    std::function<void(json&)> damage;
  };
  const std::vector<Case> cases = {
      {"'model' is missing", [](json& f) { f.erase("model"); }},
      {"'vocab' is missing", [](json& f) { f["model"]["vocab"] = json::array(); }},
      {"vocabulary is empty", [](json& f) { f["model"]["vocab"] = json::object(); }},
      {"'a' has no id", [](json& f) { f["model"]["vocab"]["a"] = "0"; }},
      {"'a' has no id", [](json& f) { f["model"]["vocab"]["a"] = -1; }},
      {"out of range", [](json& f) { f["model"]["vocab"]["a"] = 1'000'000'000; }},
      {"id 1 has two tokens", [](json& f) { f["model"]["vocab"]["a"] = 1; }},
      {"'merges' is missing", [](json& f) { f["model"].erase("merges"); }},
      {"merge 0: 'x' is not in", [](json& f) { f["model"]["merges"] = {"a x"}; }},
      {"merge 1: 'ba' is not in",
       [](json& f) {
         f["model"]["merges"] = {"a b", "b a"};
       }},
      {"merge 0 is not a pair", [](json& f) { f["model"]["merges"] = {" a"}; }},
      {"merge 0 is not a pair", [](json& f) { f["model"]["merges"] = {"a b c"}; }},
      {"merge 0 is not a pair",
       [](json& f) {
         f["model"]["merges"] = json::array({json::array({"", "a"})});
       }},
      {"merge 0 is not a pair",
       [](json& f) {
         f["model"]["merges"] = json::array({json::array({1, 2})});
       }},
      {"model 'Neural' is not known", [](json& f) { f["model"]["type"] = "Neural"; }},
      {"dropout", [](json& f) { f["model"]["dropout"] = 0.1; }},
      {"unknown token '<u>'", [](json& f) { f["model"]["unk_token"] = "<u>"; }},
      {"'<s>' has no id", [](json& f) { f["added_tokens"][0].erase("id"); }},
      {"'<s>' and its id 1", [](json& f) { f["added_tokens"][0]["id"] = 1; }},
      {"'a' and its id 5", [](json& f) { f["added_tokens"][0]["content"] = "a"; }},
      {"no content", [](json& f) { f["added_tokens"][0]["content"] = ""; }},
      {"neither true nor false", [](json& f) { f["added_tokens"][0]["lstrip"] = 1; }},
      {"normalizer 'Uppercase' is not known",
       [](json& f) {
         f["normalizer"] = {{"type", "Uppercase"}};
       }},
      {"pre_tokenizer 'UnicodeScripts' is not known", [](json& f) { f["pre_tokenizer"]["type"] = "UnicodeScripts"; }},
      {"regular expression '(a|b)*'",
       [](json& f) {
         const json split = {{"type", "Split"}, {"pattern", {{"Regex", "(a|b)*"}}}, {"behavior", "Isolated"}};
         f["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, f["pre_tokenizer"]}}};
       }},
      {"decoder 'CTC' is not known",
       [](json& f) {
         f["decoder"] = {{"type", "CTC"}};
       }},
      {"post_processor 'Odd' is not known",
       [](json& f) {
         f["post_processor"] = {{"type", "Odd"}};
       }},
  };
  for (const Case& wrong : cases) {
    json file = small_file();
    wrong.damage(file);
    const std::string message = refusal(file.dump());
    EXPECT_TRUE(message.starts_with("t.json: ")) << message;
    EXPECT_NE(message.find(wrong.part), std::string::npos) << message << " should say: " << wrong.part;
  }
}

TEST(TokenizerFile, RefusesTextThatIsNoJson) {
  EXPECT_NE(refusal("").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal("[]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(refusal(small_file().dump() + "x").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal(std::string("{}\0", 3)).find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal(R"({"a":"\ud800"})").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal(std::string(1'000'000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_NE(refusal(R"({"model":{"vocab":{"a":0,"a":1}}})").find("'a' appears twice"), std::string::npos);
  EXPECT_THROW(read_tokenizer_bytes("/nonexistent/tokenizer.json"), Error);
  EXPECT_THROW(read_tokenizer_bytes("/"), Error);
}

TEST(TokenizerFile, EveryCutOfAFileIsRefused) {
  const std::string text = small_file().dump();
  for (size_t size = 0; size < text.size(); ++size) EXPECT_NE(refusal(text.substr(0, size)), "accepted");
}

TEST(BpeTrainer, WritesWhatTheReaderReads) {
  for (const SplitKind split : {SplitKind::gpt2, SplitKind::cl100k, SplitKind::qwen2, SplitKind::digits}) {
    BpeTrainer trainer({.vocab_size = 300, .split = split, .special_tokens = {"<s>", "a b"}});
    trainer.feed("low lower lowest newer wider 2024 2025\n");
    const TrainedBpe learned = trainer.train();
    const auto tokenizer = parse_tokenizer_json(learned.to_json(), "learned");
    EXPECT_EQ(tokenizer->vocab_size(), static_cast<int64_t>(learned.tokens.size()));
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("lower\xff 日本<s>").ids), "lower\xff 日本<s>");
    EXPECT_LT(tokenizer->encode("lower").ids.size(), 5u);
  }
}

TEST(BpeTrainer, EdgeCases) {
  EXPECT_EQ(BpeTrainer({}).train().tokens.size(), 256u);
  EXPECT_EQ(BpeTrainer({.all_bytes = false}).train().tokens.size(), 0u);
  EXPECT_EQ(BpeTrainer({.vocab_size = 1}).train().merges.size(), 0u);
  EXPECT_THROW(BpeTrainer({.special_tokens = {"<s>", "<s>"}}), Error);
  EXPECT_THROW(BpeTrainer({.special_tokens = {""}}), Error);
}

}  // namespace
}  // namespace gradmill
