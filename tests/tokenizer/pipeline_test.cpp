// SPDX-License-Identifier: Apache-2.0
// Tokenizers assembled from components: the effect of each component, offsets, and the time for malicious text.
#include <gtest/gtest.h>

#include <chrono>

#include "core/error.h"
#include "tokenizer/encode_batch.h"
#include "tokenizer/load_tokenizer.h"
#include "tokenizer/tokenizer_file.h"
#include "tokenizer/tokenizer_goldens.h"

namespace gradmill {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

json word_level(const json& pre_tokenizer, const json& normalizer = nullptr) {
  return {{"normalizer", normalizer},
          {"pre_tokenizer", pre_tokenizer},
          {"model", {{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", {{"?", 0}}}}}};
}

// The words that reach the model. With a vocabulary of one token each word is unknown, and its offsets show where it
// is.
Words words_of(const json& pre_tokenizer, const std::string& text) {
  const auto tokenizer = parse_tokenizer_json(word_level(pre_tokenizer).dump(), "t");
  Words words;
  for (const TokenSpan& span : tokenizer->encode(text, {.offsets = true}).offsets) {
    words.push_back(text.substr(span.begin, span.end - span.begin));
  }
  return words;
}

json split(const json& pattern, const std::string& behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
}

TEST(PreTokenizer, SplitBehaviors) {
  const json dash = {{"String", "-"}};
  const std::string text = "-a--bc-";
  EXPECT_EQ(words_of(split(dash, "Removed"), text), (Words{"a", "bc"}));
  EXPECT_EQ(words_of(split(dash, "Isolated"), text), (Words{"-", "a", "-", "-", "bc", "-"}));
  EXPECT_EQ(words_of(split(dash, "MergedWithPrevious"), text), (Words{"-", "a-", "-", "bc-"}));
  EXPECT_EQ(words_of(split(dash, "MergedWithNext"), text), (Words{"-a", "-", "-bc", "-"}));
  EXPECT_EQ(words_of(split(dash, "Contiguous"), text), (Words{"-", "a", "--", "bc", "-"}));
  EXPECT_EQ(words_of(split(dash, "Removed", true), text), (Words{"-", "-", "-", "-"}));
  EXPECT_EQ(words_of(split(dash, "MergedWithNext", true), text), (Words{"-", "a-", "-", "bc-"}));
}

TEST(PreTokenizer, RegularExpressions) {
  const auto isolated = [](const char* regex, const std::string& text) {
    return words_of(split({{"Regex", regex}}, "Isolated"), text);
  };
  EXPECT_EQ(isolated(R"(\d{2,3}|[x-z\n]+)", "1 12345xy\nz"), (Words{"1 ", "123", "45", "xy\nz"}));
  EXPECT_EQ(isolated(R"([^\s]+)", "a  b"), (Words{"a", "  ", "b"}));
  EXPECT_EQ(isolated(R"(\p{L}+|\.)", "é1..b"), (Words{"é", "1", ".", ".", "b"}));
  for (const char* unknown :
       {"a*", "(a)", "a+?", "a|", "[", "[]", "a{3", "a{100}", "^a", ".", "\\b", "[a-\\d]", "\\p{Lu}"}) {
    EXPECT_THROW(isolated(unknown, "a"), Error) << unknown;
  }
}

TEST(PreTokenizer, Kinds) {
  EXPECT_EQ(words_of({{"type", "Whitespace"}}, "it's ok!?"), (Words{"it", "'", "s", "ok", "!?"}));
  EXPECT_EQ(words_of({{"type", "WhitespaceSplit"}}, " it's\u3000ok "), (Words{"it's", "ok"}));
  EXPECT_EQ(words_of({{"type", "BertPreTokenizer"}}, "a,, b"), (Words{"a", ",", ",", "b"}));
  EXPECT_EQ(words_of({{"type", "Punctuation"}}, "a,, b"), (Words{"a", ",", ",", " b"}));
  EXPECT_EQ(words_of({{"type", "CharDelimiterSplit"}, {"delimiter", "x"}}, "axb"), (Words{"a", "b"}));
  EXPECT_EQ(words_of({{"type", "Metaspace"}, {"replacement", "_"}}, "a  b"), (Words{"a", " ", " b"}));
}

std::vector<TokenId> metaspace_ids(const char* scheme, bool cut, const std::string& text) {
  json file = word_level({{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", scheme}, {"split", cut}});
  file["added_tokens"] = {{{"id", 1}, {"content", "<s>"}, {"special", true}}};
  file["model"]["vocab"] = {{"?", 0}, {"<s>", 1}, {"_a", 2}, {"a", 3}, {"_a_a", 4}, {"a_a", 5}};
  return parse_tokenizer_json(file.dump(), "t")->encode(text).ids;
}

TEST(PreTokenizer, MetaspaceSchemes) {
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(metaspace_ids("always", true, "a a<s>a"), (Ids{2, 2, 1, 2}));
  EXPECT_EQ(metaspace_ids("first", true, "a a<s>a"), (Ids{2, 2, 1, 3}));
  EXPECT_EQ(metaspace_ids("never", true, "a a<s>a"), (Ids{3, 2, 1, 3}));
  EXPECT_EQ(metaspace_ids("first", false, "a a<s>a a"), (Ids{4, 1, 5}));
  EXPECT_EQ(metaspace_ids("always", true, ""), Ids{});
}

TEST(Pipeline, OffsetsGoThroughAllRewriting) {
  // Accents and a control character are removed, an ideograph gets spaces, and letters become lower case.
  const auto tokenizer = test::golden_tokenizer("bert");
  const std::string text = "\u00c9\u0301A \u0001\u4e2d!";
  const Encoding encoding = tokenizer->encode(text, {.offsets = true});
  for (const TokenSpan& span : encoding.offsets) EXPECT_LE(span.begin, span.end);
  EXPECT_EQ(encoding.offsets.front().begin, 0u);
  EXPECT_EQ(encoding.offsets.back(), (TokenSpan{text.size() - 1, text.size()}));
}

// Found by a fuzzer: a prefix, inserted where text had been removed, ended before it began.
TEST(Pipeline, WhatIsPutInHasAPlace) {
  const json file =
      word_level({{"type", "Sequence"},
                  {"pretokenizers", {{{"type", "WhitespaceSplit"}}, {{"type", "Metaspace"}, {"replacement", "_"}}}}},
                 {{"type", "StripAccents"}});
  const auto tokenizer = parse_tokenizer_json(file.dump(), "t");
  for (const TokenSpan& span : tokenizer->encode("\u0301a \u0301b\u0301 ", {.offsets = true}).offsets) {
    EXPECT_LE(span.begin, span.end);
  }
}

TEST(Pipeline, InvalidBytesAreReplacementCharacters) {
  for (const std::string name : {"bert", "deberta", "llama2", "gemma", "suffixes"}) {
    const auto tokenizer = test::golden_tokenizer(name);
    EXPECT_EQ(tokenizer->encode("a\xff b\xe2\x82 c").ids, tokenizer->encode("a\ufffd b\ufffd c").ids) << name;
  }
}

TEST(Pipeline, LosslessFormatsComeBack) {
  const std::vector<std::string> texts = test::tokenizer_golden("texts")["texts"];
  for (const std::string name : {"gpt2", "cl100k", "llama2"}) {
    json file = test::tokenizer_golden(name);
    file.erase("added_tokens");  // some of these would take white space with them
    const auto tokenizer = parse_tokenizer_json(file.dump(), name);
    for (const std::string& text : texts) EXPECT_EQ(tokenizer->decode(tokenizer->encode(text).ids), text) << name;
  }
}

// Quadratic time would be an hour for a million, and a few seconds for the others; sanitizers are slow.
TEST(Pipeline, RunsOfOneCharacterTakeNoTime) {
  const auto seconds_for = [](const Tokenizer& tokenizer, std::string_view unit, size_t size) {
    std::string text;
    while (text.size() < size) text += unit;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_NO_THROW(tokenizer.encode(text));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (const std::string name : {"gpt2", "cl100k", "qwen2", "bert", "deberta", "llama2", "gemma", "suffixes", "words",
                                 "spm_unigram", "spm_bpe"}) {
    auto path = test::tokenizer_golden_path(name);
    if (name.starts_with("spm")) path.replace_extension(".model");
    const auto tokenizer = load_tokenizer(path);
    EXPECT_LT(seconds_for(*tokenizer, "a", 1'000'000), 5.0) << name;
    for (const std::string_view unit : {" ", "\u0301", "日", "'", "1"}) {
      EXPECT_LT(seconds_for(*tokenizer, unit, 30'000), 5.0) << name << " " << unit;
    }
  }
}

TEST(EncodeBatch, ThreadsChangeNothing) {
  const auto tokenizer = test::golden_tokenizer("deberta");
  const std::vector<std::string> texts = test::tokenizer_golden("texts")["texts"];
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto one = encode_batch(*tokenizer, views, 1), four = encode_batch(*tokenizer, views, 4);
  ASSERT_EQ(one.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(one[i].ids, tokenizer->encode(texts[i]).ids);
    EXPECT_EQ(four[i].ids, one[i].ids);
  }
  json file = word_level(nullptr);
  file["model"].erase("unk_token");
  EXPECT_THROW(encode_batch(*parse_tokenizer_json(file.dump(), "t"), views, 3), Error);
}

}  // namespace
}  // namespace gradmill
