// SPDX-License-Identifier: Apache-2.0
// Malicious files: each is refused with one line, or works within limits.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "support/temporary_folder.h"
#include "tokenizer/load_tokenizer.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer_file.h"
#include "tokenizer/tokenizer_goldens.h"

namespace gradmill {
namespace {

using nlohmann::json;

json small_unigram() {
  return {{"pre_tokenizer", nullptr},
          {"decoder", nullptr},
          {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", json::parse(R"([["<unk>", 0], ["a", -1]])")}}}};
}

template <typename Load>
std::string refusal(Load load) {
  try {
    load();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 400u);
    return message;
  }
  return "accepted";
}

std::string refusal_of(const json& file) {
  return refusal([&] { parse_tokenizer_json(file.dump(), "t.json"); });
}

void expect_refused(const json& file, const std::string& part) {
  const std::string message = refusal_of(file);
  EXPECT_TRUE(message.starts_with("t.json: ")) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message << " should say: " << part;
}

TEST(HostileFile, DepthBombs) {
  json nested = {{"type", "NFC"}};
  for (int i = 0; i < 40; ++i) nested = {{"type", "Sequence"}, {"normalizers", {nested}}};
  json file = small_unigram();
  file["normalizer"] = nested;
  expect_refused(file, "nested deeper");
}

TEST(HostileFile, TooManyStepsAndGrowth) {
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  json file = small_unigram();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::vector<json>(65, replace)}};
  expect_refused(file, "more than 64 parts");
  // With the largest allowed number, one letter would become 2^60.
  file["normalizer"]["normalizers"] = std::vector<json>(60, replace);
  const auto tokenizer = parse_tokenizer_json(file.dump(), "t.json");
  EXPECT_NE(refusal([&] { tokenizer->encode("a"); }).find("normalizers made a text"), std::string::npos);
  file["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(1000, 'x')}};
  expect_refused(file, "'prepend' has 1000 bytes");
}

TEST(HostileFile, Unigram) {
  json file = small_unigram();
  file["model"]["unk_id"] = 2;
  expect_refused(file, "'unk_id' is not a number from 0 to 1");
  file = small_unigram();
  file["model"]["vocab"].push_back(json::array({"a", -2.0}));
  expect_refused(file, "'a' appears twice");
  file["model"]["vocab"] = json::parse(R"([["a", "b"]])");
  expect_refused(file, "entry 0");
  file["model"]["vocab"] = json::array({json::array({std::string(5000, 'a'), 1})});
  expect_refused(file, "5000 bytes");
  file["model"].erase("unk_id");
  file["model"]["vocab"] = json::parse(R"([["a", -1]])");
  const auto tokenizer = parse_tokenizer_json(file.dump(), "t.json");
  EXPECT_NE(refusal([&] { tokenizer->encode("b"); }).find("'b' has no token"), std::string::npos);
}

TEST(HostileFile, Components) {
  json file = small_unigram();
  file["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "////"}};
  expect_refused(file, "cut short or damaged");
  file["normalizer"]["precompiled_charsmap"] = "*";
  expect_refused(file, "not base64");
  file = small_unigram();
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "ab"}};
  expect_refused(file, "'replacement' is not one character");
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "often"}};
  expect_refused(file, "prepend_scheme 'often'");
  file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", ""}}}, {"behavior", "Removed"}};
  expect_refused(file, "'pattern' is empty");
  file = small_unigram();
  file["decoder"] = {{"type", "Strip"}, {"content", " "}, {"start", -1}};
  expect_refused(file, "'start' is not a number");
}

TEST(HostileFile, Templates) {
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json other = {{"Sequence", {{"id", "B"}, {"type_id", 0}}}};
  const json token = {{"SpecialToken", {{"id", "x"}, {"type_id", 0}}}};
  const auto with = [&](const json& single, const json& pair, const json& ids) {
    json file = small_unigram();
    file["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", single},
                              {"pair", pair},
                              {"special_tokens", {{"x", {{"id", "x"}, {"ids", ids}}}}}};
    return file;
  };
  EXPECT_EQ(refusal_of(with({token, text}, {text, other}, json::array({0}))), "accepted");
  expect_refused(with({token, text}, {text, other}, json::array({9})), "id that is not in the vocabulary");
  expect_refused(with({text, other}, {text, other}, json::array({0})),
                 "'single' does not contain each text exactly once");
  expect_refused(with(json::array({text}), json::array({text}), json::array({0})),
                 "'pair' does not contain each text exactly once");
  expect_refused(with({text, token}, {text, other}, std::vector<int>(2000, 0)), "too many pieces");
  json file = with({text, token}, {text, other}, json::array({0}));
  file["post_processor"].erase("special_tokens");
  expect_refused(file, "'special_tokens' is missing");
}

TEST(HostileFile, MergesThatGoInCircles) {
  // "ab" + "ba" would have to be a token that is one of its own parts. Every merge makes a longer token, so this is
  // impossible.
  json file = {{"pre_tokenizer", nullptr}, {"decoder", nullptr}};
  file["model"] = {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b", "ab a"}}};
  expect_refused(file, "merge 1: 'aba' is not in the vocabulary");
  // A prefix that is a whole part would leave nothing to merge.
  file["model"]["continuing_subword_prefix"] = "##";
  file["model"]["vocab"] = {{"a", 0}, {"##", 1}};
  file["model"]["merges"] = {"a ##"};
  expect_refused(file, "merge 0 is not a pair");
  // The same pair again and again counts as one merge.
  file["model"] = {
      {"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", std::vector<json>(1000, "a b")}};
  EXPECT_EQ(parse_tokenizer_json(file.dump(), "t")->encode("abab").ids, (std::vector<TokenId>{2, 2}));
}

TEST(HostileFile, AHugeFileIsNotRead) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.write("huge_tokenizer.json", "{");
  std::filesystem::resize_file(path, std::uintmax_t{2} << 30);  // sparse
  EXPECT_NE(refusal([&] { load_tokenizer(path); }).find("2147483648 bytes, too many"), std::string::npos);
}

TEST(HostileFile, EveryCutAndManyFlipsOfAModel) {
  std::ifstream file(test::tokenizer_golden_path("spm_bpe").replace_extension(".model"), std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(file), {});
  ASSERT_GT(whole.size(), 1000u);
  const auto load = [](const std::string& bytes) {
    return refusal([&] { make_sentencepiece(bytes, "t.model")->encode("The quick <sep> fox"); });
  };
  EXPECT_EQ(load(whole), "accepted");
  EXPECT_NE(load("").find("no pieces"), std::string::npos);
  EXPECT_NE(load(whole.substr(0, 1000)).find("damaged at byte"), std::string::npos);
  for (size_t size = 0; size < whole.size(); size += 7) load(whole.substr(0, size));
  for (size_t i = 0; i < whole.size(); i += 5) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    load(flipped);
  }
}

}  // namespace
}  // namespace gradmill
