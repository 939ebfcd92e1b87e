// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/encoded_set.h"

#include "support/errors.h"
#include "data/labelled/word_tokenizer.h"

namespace gradmill::test {
namespace {

using Ids = std::vector<TokenId>;

class EncodedSetTest : public testing::Test {
 protected:
  EncodedSet encode(const LabelledSet& set, int64_t max_length = 0, int num_threads = 1) {
    return EncodedSet(set, tokenizer_, tokenizer_.sequence_template(),
                      {.truncation = {.max_length = max_length}, .num_threads = num_threads});
  }
  WordTokenizer tokenizer_;
};

TEST_F(EncodedSetTest, SequencesHaveTheirTemplateAndAreCut) {
  const LabelledSet set = set_of_lengths({2, 5});
  const EncodedSet encoded = encode(set, 5);
  EXPECT_EQ(encoded.sequence(0).ids, (Ids{1, 100, 101, 2}));
  EXPECT_EQ(encoded.sequence(1).ids, (Ids{1, 100, 101, 102, 2}));
  EXPECT_EQ(encoded.first(1).size(), 5u);
  EXPECT_EQ(encoded.length(0), 4);
  EXPECT_EQ(encoded.length(1), 5);
  EXPECT_EQ(encoded.full_length(1), 7);
}

TEST_F(EncodedSetTest, PairsHaveTypes) {
  LabelledSet set = set_of_lengths({2});
  set.pairs = true;
  set.examples[0].second = "w9";
  const Sequence sequence = encode(set).sequence(0);
  EXPECT_EQ(sequence.ids, (Ids{1, 100, 101, 2, 109, 2}));
  EXPECT_EQ(sequence.type_ids, (std::vector<int32_t>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(sequence.special, (std::vector<uint8_t>{1, 0, 0, 1, 0, 1}));
  EXPECT_EQ(encode(set).sequence_of("w5", "w6 w7").ids, (Ids{1, 105, 2, 106, 107, 2}));
  EXPECT_EQ(encode(set).full_length(0), 6);
}

TEST_F(EncodedSetTest, ThreadsDoNotMatter) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 1000; ++i) lengths.push_back(i * 7 % 31);
  const LabelledSet set = set_of_lengths(lengths);
  const EncodedSet one = encode(set, 20);
  for (const int threads : {0, 2, 7}) {
    const EncodedSet other = encode(set, 20, threads);
    for (int32_t i = 0; i < set.size(); ++i) {
      ASSERT_EQ(other.sequence(i).ids, one.sequence(i).ids);
      ASSERT_EQ(std::ssize(one.sequence(i).ids), one.length(i));
    }
  }
}

TEST_F(EncodedSetTest, TheFirstTextThatCannotBeEncodedIsNamed) {
  LabelledSet set = set_of_lengths(std::vector<int64_t>(1000, 3));
  set.examples[300].first = set.examples[900].first = "w1 !";
  for (const int threads : {1, 4}) {
    expect_error([&] { encode(set, 0, threads); }, ExitCode::data, {"'memory' line 301: no token for '!'"});
  }
}

TEST_F(EncodedSetTest, EmptyTextsAndLimitsWithoutRoom) {
  const LabelledSet set = set_of_lengths({0, 3});
  EXPECT_EQ(encode(set).sequence(0).ids, (Ids{1, 2}));
  const SequenceTemplate bare;
  expect_error([&] { EncodedSet(set, tokenizer_, bare, {}); }, ExitCode::data, {"line 1: a text without a token"});
  for (const int64_t limit : {-1, 1, 2}) {
    expect_error([&] { encode(set, limit); }, ExitCode::usage, {fmt::format("{} tokens", limit), "than the 2"});
  }
}

}  // namespace
}  // namespace gradmill::test
