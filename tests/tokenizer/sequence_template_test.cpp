// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/sequence_template.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"

namespace gradmill {
namespace {

using Ids = std::vector<TokenId>;
using Strategy = Truncation::Strategy;

SequenceTemplate bert() { return SequenceTemplate::bert(101, 102); }

TEST(SequenceTemplate, PutsTokensAroundTexts) {
  const Sequence single = bert().build(Ids{7, 8});
  EXPECT_EQ(single.ids, (Ids{101, 7, 8, 102}));
  EXPECT_EQ(single.type_ids, (std::vector<int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(single.special, (std::vector<uint8_t>{1, 0, 0, 1}));
  const Sequence pair = bert().build(Ids{7, 8}, Ids{9});
  EXPECT_EQ(pair.ids, (Ids{101, 7, 8, 102, 9, 102}));
  EXPECT_EQ(pair.type_ids, (std::vector<int32_t>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(pair.special, (std::vector<uint8_t>{1, 0, 0, 1, 0, 1}));
  EXPECT_EQ(bert().num_added(false), 2);
  EXPECT_EQ(bert().num_added(true), 3);
}

TEST(SequenceTemplate, TheDefaultAddsNothing) {
  const SequenceTemplate none;
  EXPECT_EQ(none.build(Ids{1, 2}).ids, (Ids{1, 2}));
  const Sequence pair = none.build(Ids{1, 2}, Ids{3});
  EXPECT_EQ(pair.ids, (Ids{1, 2, 3}));
  EXPECT_EQ(pair.type_ids, (std::vector<int32_t>{0, 0, 1}));
  EXPECT_EQ(none.num_added(true), 0);
  EXPECT_EQ(none.build(Ids{}).ids, Ids{});
}

TEST(SequenceTemplate, CutsEitherSide) {
  EXPECT_EQ(bert().build(Ids{1, 2, 3}, {.max_length = 4}).ids, (Ids{101, 1, 2, 102}));
  EXPECT_EQ(bert().build(Ids{1, 2, 3}, {.max_length = 4, .left = true}).ids, (Ids{101, 2, 3, 102}));
  EXPECT_EQ(bert().build(Ids{1, 2, 3}, {.max_length = 9}).ids, (Ids{101, 1, 2, 3, 102}));
  EXPECT_EQ(bert().build(Ids{1, 2, 3}, {.max_length = 2}).ids, (Ids{101, 102}));
}

// Lengths as returned by Hugging Face's truncate_encodings.
TEST(SequenceTemplate, LongestFirstSharesAsHuggingFace) {
  struct Case {
    size_t first, second;
    int64_t max_length;
    size_t expect_first, expect_second;
  };
  for (const Case& c : {Case{10, 3, 8, 5, 3}, Case{3, 10, 8, 3, 5}, Case{10, 10, 7, 3, 4}, Case{11, 10, 7, 4, 3},
                        Case{1, 10, 7, 1, 6}, Case{0, 10, 7, 0, 7}, Case{9, 9, 1, 0, 1}, Case{9, 8, 1, 1, 0},
                        Case{4, 4, 8, 4, 4}, Case{5, 4, 8, 4, 4}, Case{2, 2, 100, 2, 2}}) {
    const Ids first(c.first, 1), second(c.second, 2);
    const Sequence got = SequenceTemplate().build(first, second, {.max_length = c.max_length});
    const auto num_first = static_cast<size_t>(std::ranges::count(got.ids, 1));
    EXPECT_EQ(num_first, c.expect_first) << c.first << " " << c.second << " " << c.max_length;
    EXPECT_EQ(got.ids.size() - num_first, c.expect_second) << c.first << " " << c.second << " " << c.max_length;
  }
}

TEST(SequenceTemplate, OneSideOnly) {
  const Ids first{1, 2, 3, 4}, second{5, 6, 7};
  EXPECT_EQ(bert().build(first, second, {.max_length = 8, .strategy = Strategy::only_first}).ids,
            (Ids{101, 1, 2, 102, 5, 6, 7, 102}));
  EXPECT_EQ(bert().build(first, second, {.max_length = 8, .strategy = Strategy::only_second, .left = true}).ids,
            (Ids{101, 1, 2, 3, 4, 102, 7, 102}));
}

TEST(SequenceTemplate, RefusesWhatCannotBeReached) {
  const Ids first{1, 2, 3, 4}, second{5, 6, 7};
  EXPECT_THROW(bert().build(first, {.max_length = 1}), Error);
  EXPECT_THROW(bert().build(first, {.max_length = 3, .strategy = Strategy::only_second}), Error);
  EXPECT_NO_THROW(bert().build(first, {.max_length = 6, .strategy = Strategy::only_second}));
  EXPECT_THROW(bert().build(first, second, {.max_length = 2}), Error);
  EXPECT_THROW(bert().build(first, second, {.max_length = 5, .strategy = Strategy::only_first}), Error);
  EXPECT_THROW(bert().build(first, second, {.max_length = 6, .strategy = Strategy::only_second}), Error);
}

}  // namespace
}  // namespace gradmill
