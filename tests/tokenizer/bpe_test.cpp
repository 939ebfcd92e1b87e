// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "core/error.h"
#include "tokenizer/tokenizer_file.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/tokenizer_goldens.h"

namespace gradmill {
namespace {

// The bytes, then "aa", "aaaa" and so on, each twice as long as the one before.
Bpe doubling_bpe(int num_doublings) {
  Vocabulary vocabulary(256 + num_doublings - 1);
  for (int byte = 0; byte < 256; ++byte) vocabulary.add(byte, spell_bytes(std::string(1, static_cast<char>(byte))));
  std::vector<Merge> merges;
  for (int i = 0; i < num_doublings; ++i) {
    vocabulary.add(256 + i, std::string(size_t{2} << i, 'a'));
    const TokenId half = i == 0 ? 'a' : 255 + i;
    merges.push_back({half, half, 256 + i, static_cast<uint32_t>(i)});
  }
  return Bpe(std::move(vocabulary), merges, {});
}

// By definition: looks at all pairs, merges the leftmost one of the lowest rank, and starts over.
std::vector<TokenId> encode_slowly(const Bpe& bpe, const std::vector<Merge>& merges, std::string_view word) {
  std::vector<TokenId> ids;
  for (const char byte : word) ids.push_back(*bpe.vocabulary().id_of_bytes({&byte, 1}));
  for (size_t rank = 0; rank < merges.size();) {
    size_t i = 0;
    while (i + 1 < ids.size() && (ids[i] != merges[rank].left || ids[i + 1] != merges[rank].right)) ++i;
    if (i + 1 >= ids.size()) {
      ++rank;
      continue;
    }
    ids[i] = merges[rank].merged;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(i) + 1);
    rank = 0;
  }
  return ids;
}

std::vector<TokenId> ids_of(const std::vector<WordToken>& tokens) {
  std::vector<TokenId> ids;
  for (const WordToken& token : tokens) ids.push_back(token.id);
  return ids;
}

TEST(Bpe, MillionEqualLettersTakeNoTime) {
  const Bpe bpe = doubling_bpe(10);
  const std::string word(1'000'000, 'a');
  std::vector<WordToken> tokens;
  const auto start = std::chrono::steady_clock::now();
  bpe.encode_word(word, tokens);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 5.0);  // quadratic time would be an hour; sanitizers are slow
  size_t num_bytes = 0;
  for (const WordToken& token : tokens) num_bytes += token.num_bytes;
  EXPECT_EQ(num_bytes, word.size());
  EXPECT_EQ(tokens.front().id, 265);
  EXPECT_EQ(tokens.size(), 1'000'000 / 1024 + 2);  // 576 letters remain: 512 and 64
}

TEST(Bpe, ShortAndLongWordsFollowTheDefinition) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    Vocabulary vocabulary(400);
    for (int byte = 0; byte < 256; ++byte) vocabulary.add(byte, spell_bytes(std::string(1, static_cast<char>(byte))));
    std::vector<TokenId> known = {'a', 'b', 'c'};
    std::vector<Merge> merges;
    for (TokenId id = 256; id < 290; ++id) {
      const TokenId left = known[random() % known.size()], right = known[random() % known.size()];
      if (!vocabulary.add(id, vocabulary.bytes(left) + vocabulary.bytes(right))) continue;
      merges.push_back({left, right, id, 0});
      known.push_back(id);
    }
    std::shuffle(merges.begin(), merges.end(), random);
    for (uint32_t rank = 0; rank < merges.size(); ++rank) merges[rank].rank = rank;
    const Bpe bpe(std::move(vocabulary), merges, {});
    std::string word(1 + random() % 80, 'a');
    for (char& letter : word) letter = static_cast<char>('a' + random() % 3);
    std::vector<WordToken> tokens;
    bpe.encode_word(word, tokens);
    EXPECT_EQ(ids_of(tokens), encode_slowly(bpe, merges, word)) << word;
  }
}

TEST(Bpe, UnknownBytes) {
  Vocabulary vocabulary(1);
  vocabulary.add(0, "<unk>");
  vocabulary.add(1, "a");
  std::vector<WordToken> tokens;
  Bpe(vocabulary, {}, {.unknown = 0}).encode_word("bba", tokens);
  EXPECT_EQ(ids_of(tokens), (std::vector<TokenId>{0, 0, 1}));
  tokens.clear();
  Bpe(vocabulary, {}, {.unknown = 0, .fuse_unknown = true}).encode_word("bba", tokens);
  EXPECT_EQ(ids_of(tokens), (std::vector<TokenId>{0, 1}));
  tokens.clear();
  Bpe(vocabulary, {}, {}).encode_word("bab", tokens);
  EXPECT_EQ(ids_of(tokens), std::vector<TokenId>{1});
  EXPECT_EQ(tokens[0].num_bytes, 2u);
}

TEST(BpeTokenizer, AnyBytesComeBack) {
  std::mt19937 random(5);
  for (const std::string name : {"gpt2", "cl100k"}) {
    const auto tokenizer = test::golden_tokenizer(name);
    for (int trial = 0; trial < 2000; ++trial) {
      std::string text(random() % 60, ' ');
      for (char& byte : text) byte = static_cast<char>(random() % 3 == 0 ? random() : " abc'\xe2\x82\n"[random() % 8]);
      const Encoding encoding = tokenizer->encode(text, {.parse_special = false, .offsets = true});
      EXPECT_EQ(tokenizer->decode(encoding.ids), text);
      ASSERT_EQ(encoding.offsets.size(), encoding.ids.size());
      size_t end = 0;
      for (const TokenSpan& span : encoding.offsets) {
        EXPECT_EQ(span.begin, end);
        end = span.end;
      }
      EXPECT_EQ(end, text.size());
    }
  }
}

TEST(BpeTokenizer, OffsetsPointIntoTheOriginal) {
  // 'e' with its accent becomes one character of two bytes, which are one or two tokens; all of them cover three bytes.
  const auto qwen = test::golden_tokenizer("qwen2");
  const std::string text = "~e\u0301~";
  const Encoding encoding = qwen->encode(text, {.offsets = true});
  EXPECT_EQ(encoding.offsets.front(), (TokenSpan{0, 1}));
  EXPECT_EQ(encoding.offsets[1], (TokenSpan{1, 4}));
  EXPECT_EQ(encoding.offsets.back(), (TokenSpan{4, 5}));
  EXPECT_EQ(qwen->decode(encoding.ids), "~\u00e9~");
  // The space that is added in front has no position; the mask token takes the spaces before it.
  const auto digits = test::golden_tokenizer("digits");
  const Encoding masked = digits->encode("~  [MASK]", {.offsets = true});
  EXPECT_EQ(masked.offsets.back(), (TokenSpan{1, 9}));
  EXPECT_EQ(masked.offsets.front().begin, 0u);
  EXPECT_EQ(masked.offsets[masked.offsets.size() - 2].end, 1u);
}

TEST(BpeTokenizer, SpecialTokensCanBeText) {
  const auto tokenizer = test::golden_tokenizer("gpt2");
  EXPECT_EQ(tokenizer->encode("<|endoftext|>").ids, std::vector<TokenId>{0});
  const Encoding plain = tokenizer->encode("<|endoftext|>", {.parse_special = false});
  EXPECT_GT(plain.ids.size(), 1u);
  EXPECT_EQ(tokenizer->decode(plain.ids, {.skip_special = true}), "<|endoftext|>");
  EXPECT_THROW(tokenizer->decode(std::vector<TokenId>{100000}), Error);
  EXPECT_THROW(tokenizer->decode(std::vector<TokenId>{-1}), Error);
}

TEST(BpeTokenizer, ThreadsShareOne) {
  const auto tokenizer = test::golden_tokenizer("cl100k");
  const std::vector<std::string> texts = test::tokenizer_golden("texts")["texts"];
  std::vector<std::vector<TokenId>> expected;
  for (const std::string& text : texts) expected.push_back(tokenizer->encode(text).ids);
  std::vector<int> num_wrong(4, 0);
  std::vector<std::thread> threads;
  for (int& wrong : num_wrong) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < texts.size(); ++i) wrong += tokenizer->encode(texts[i]).ids != expected[i];
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, std::vector<int>(4, 0));
}

TEST(BpeTokenizer, ManyMarksOnOneLetterStayLinear) {
  const auto tokenizer = test::golden_tokenizer("qwen2");
  std::string text = "e";
  for (int i = 0; i < 200'000; ++i) text += "\u0301\u0323";
  EXPECT_FALSE(tokenizer->encode(text).ids.empty());
}

}  // namespace
}  // namespace gradmill
