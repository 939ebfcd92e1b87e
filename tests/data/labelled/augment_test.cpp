// SPDX-License-Identifier: Apache-2.0
// Changes of words and tokens: their rates, what they must not change, and that they are reproducible.
#include "data/labelled/augment.h"

#include <algorithm>
#include <set>

#include "support/errors.h"
#include "support/temporary_folder.h"
#include "data/labelled/word_tokenizer.h"
#include "data/labelled/words.h"

namespace gradmill::test {
namespace {

class AugmentTest : public testing::Test {
 protected:
  Synonyms synonyms(std::string_view text) { return Synonyms::from_file(folder_.write("synonyms.txt", text)); }
  static std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    for (const Word& word : split_words(text).words) words.push_back(word.text);
    return words;
  }
  static Sequence sequence_of(int64_t count) {
    const WordTokenizer tokenizer;
    return tokenizer.sequence_template().build(tokenizer.encode(words(count), {}).ids);
  }
  static int64_t count_of(const Sequence& sequence, TokenId id) { return std::ranges::count(sequence.ids, id); }

  TemporaryFolder folder_;
};

TEST_F(AugmentTest, WordsAndBlanksAreKept) {
  for (const std::string text : {"", " ", "a", " a\t b\n\n", "x  y z"}) EXPECT_EQ(join_words(split_words(text)), text);
  EXPECT_EQ(split_words(" a\t b\n").words.size(), 2u);
}

TEST_F(AugmentTest, NothingIsChangedAtRateZero) {
  const Augmenter none({}, {}, 1);
  EXPECT_EQ(none.change_words("a b", 0, 0, 0), std::nullopt);
  Sequence sequence = sequence_of(20);
  none.change_tokens(sequence, 0, 0);
  EXPECT_EQ(sequence.ids, sequence_of(20).ids);
}

TEST_F(AugmentTest, ChangesDependOnSeedEpochExampleAndPart) {
  const AugmentOptions options{.swap = 0.5, .deletion = 0.2, .span_mask = 0.3, .mask_id = 3};
  const Augmenter augmenter(options, {}, 1), same(options, {}, 1), other(options, {}, 2);
  const std::string text = words(30);
  const auto changed = [&](const Augmenter& by, int32_t example, int64_t epoch, int part) {
    return by.change_words(text, example, epoch, part).value_or(text);
  };
  EXPECT_EQ(changed(augmenter, 5, 6, 0), changed(same, 5, 6, 0));
  const std::set<std::string> different = {changed(augmenter, 5, 6, 0), changed(augmenter, 6, 6, 0),
                                           changed(augmenter, 5, 7, 0), changed(augmenter, 5, 6, 1),
                                           changed(other, 5, 6, 0)};
  EXPECT_EQ(different.size(), 5u);
  Sequence first = sequence_of(60), again = first, next = first;
  augmenter.change_tokens(first, 5, 6);
  same.change_tokens(again, 5, 6);
  augmenter.change_tokens(next, 5, 7);
  EXPECT_EQ(first.ids, again.ids);
  EXPECT_NE(first.ids, next.ids);
}

TEST_F(AugmentTest, SwapsKeepWordsAndBlanks) {
  const Augmenter augmenter({.swap = 0.2}, {}, 1);
  const std::string text = "w0  w1\tw2 w3 w4 w5 w6 w7 w8 w9\n";
  const std::string changed = augmenter.change_words(text, 0, 0, 0).value();
  std::vector<std::string> before = words_of(text), after = words_of(changed);
  int64_t moved = 0;
  for (size_t i = 0; i < before.size(); ++i) moved += before[i] != after[i];
  EXPECT_GE(moved, 2);
  EXPECT_LE(moved, 4);
  EXPECT_EQ(changed.size(), text.size());
  EXPECT_TRUE(changed.ends_with('\n'));
  std::ranges::sort(after);
  EXPECT_EQ(after, before);
  EXPECT_EQ(augmenter.change_words("one", 0, 0, 0), std::nullopt);
}

TEST_F(AugmentTest, DeletionHasItsRateAndLeavesAWord) {
  const Augmenter augmenter({.deletion = 0.3}, {}, 1);
  int64_t kept = 0;
  for (int32_t example = 0; example < 100; ++example) {
    const std::string changed = augmenter.change_words(words(100), example, 0, 0).value();
    EXPECT_FALSE(changed.ends_with(' '));
    kept += std::ssize(words_of(changed));
  }
  EXPECT_NEAR(static_cast<double>(kept), 7000, 200);  // four standard deviations
  const Augmenter all({.deletion = 1}, {}, 1);
  std::set<std::string> left;
  for (int32_t example = 0; example < 50; ++example) left.insert(all.change_words("a b c", example, 0, 0).value());
  EXPECT_EQ(left, (std::set<std::string>{"a", "b", "c"}));
}

TEST_F(AugmentTest, SynonymsStandForWords) {
  const Augmenter augmenter({.synonyms = 1}, synonyms("# comment\nbig\tlarge,  huge\n\nCat\tfeline\r\nbig\tgreat"), 1);
  std::set<std::string> found;
  for (int32_t example = 0; example < 60; ++example) {
    found.insert(augmenter.change_words("(Big) cat's CAT, dog", example, 0, 0).value());
  }
  EXPECT_EQ(found, (std::set<std::string>{"(Large) cat's Feline, dog", "(Huge) cat's Feline, dog",
                                          "(Great) cat's Feline, dog"}));
  EXPECT_EQ(augmenter.change_words("... dog -- 123", 0, 0, 0), std::nullopt);
}

TEST_F(AugmentTest, SynonymFilesAreChecked) {
  const auto refused = [&](std::string_view text, std::initializer_list<std::string_view> parts) {
    expect_error([&] { synonyms(text); }, ExitCode::data, parts);
  };
  refused("a\tb\nword synonym\n", {"synonyms.txt' line 2: no tab", "write a word"});
  refused("\tb\n", {"line 1: no word"});
  refused("a\t\n", {"line 1: no synonym"});
  refused("a\tb,,c\n", {"line 1: an empty synonym"});
  refused("a\tb\na\t\xff\n", {"line 2: not valid UTF-8"});
  refused("a\t" + std::string(2 << 20, 'b'), {"line 1: too long"});
  expect_error([&] { Synonyms::from_file(folder_.path() / "none.txt"); }, ExitCode::data, {"none.txt"});
  EXPECT_TRUE(synonyms("").empty());
}

TEST_F(AugmentTest, MasksComeInSpansAndHaveTheirRate) {
  const Augmenter augmenter({.span_mask = 0.15, .mask_id = 3}, {}, 1);
  int64_t masked = 0, spans = 0;
  for (int32_t example = 0; example < 200; ++example) {
    Sequence sequence = sequence_of(100);
    augmenter.change_tokens(sequence, example, 0);
    EXPECT_EQ(sequence.ids.front(), WordTokenizer::kFirst);
    EXPECT_EQ(sequence.ids.back(), WordTokenizer::kLast);
    EXPECT_EQ(sequence.ids.size(), 102u);
    EXPECT_EQ(count_of(sequence, 3), 15);
    masked += count_of(sequence, 3);
    for (size_t i = 1; i < sequence.ids.size(); ++i) spans += sequence.ids[i] == 3 && sequence.ids[i - 1] != 3;
  }
  const double length = static_cast<double>(masked) / static_cast<double>(spans);
  EXPECT_GT(length, 2.2);
  EXPECT_LT(length, 3.5);
}

TEST_F(AugmentTest, DropoutHasItsRate) {
  const Augmenter augmenter({.token_dropout = 0.1, .dropout_id = 4}, {}, 1);
  int64_t dropped = 0;
  for (int32_t example = 0; example < 100; ++example) {
    Sequence sequence = sequence_of(100);
    augmenter.change_tokens(sequence, example, 0);
    dropped += count_of(sequence, 4);
  }
  EXPECT_NEAR(static_cast<double>(dropped), 1000, 120);
}

TEST_F(AugmentTest, SpecialTokensAreNeverTouched) {
  const Augmenter augmenter({.span_mask = 1, .token_dropout = 1, .mask_id = 3, .dropout_id = 4, .kept_ids = {150, 101}},
                            {}, 1);
  Sequence sequence = sequence_of(60);
  augmenter.change_tokens(sequence, 0, 0);
  EXPECT_EQ(sequence.ids[0], WordTokenizer::kFirst);
  EXPECT_EQ(sequence.ids[2], 101);
  EXPECT_EQ(sequence.ids[51], 150);
  EXPECT_EQ(sequence.ids[61], WordTokenizer::kLast);
  EXPECT_EQ(count_of(sequence, 3) + count_of(sequence, 4), 58);
}

TEST_F(AugmentTest, TheTemplatesTokensAreKeptInsideATextToo) {
  const WordTokenizer tokenizer;
  Sequence sequence = tokenizer.sequence_template().build(std::vector<TokenId>{100, WordTokenizer::kLast, 101});
  Augmenter({.token_dropout = 1, .dropout_id = 4}, {}, 1).change_tokens(sequence, 0, 0);
  EXPECT_EQ(sequence.ids, (std::vector<TokenId>{1, 4, 2, 4, 2}));
}

TEST_F(AugmentTest, KeptWordsStayWhereTheyAre) {
  const Augmenter augmenter({.synonyms = 1, .swap = 1, .deletion = 0, .kept_words = {"[SEP]", "[MASK]"}},
                            synonyms("mask\tveil\nsep\tseptember\n"), 1);
  for (int32_t example = 0; example < 50; ++example) {
    const std::vector<std::string> words =
        words_of(augmenter.change_words("a [MASK] b [SEP] mask", example, 0, 0).value());
    ASSERT_EQ(words.size(), 5u);
    EXPECT_EQ(words[1], "[MASK]");
    EXPECT_EQ(words[3], "[SEP]");
    EXPECT_EQ(std::ranges::count(words, "veil"), 1);
  }
  const Augmenter all({.deletion = 1, .kept_words = {"[SEP]"}}, {}, 1);
  EXPECT_EQ(all.change_words("a [SEP] b", 0, 0, 0), "[SEP]");
  EXPECT_EQ(all.change_words("", 0, 0, 0), std::nullopt);
  EXPECT_EQ(all.change_words("[SEP]", 0, 0, 0), std::nullopt);
}

TEST_F(AugmentTest, PairsAreChangedOnEachSideAndCut) {
  LabelledSet set = set_of_lengths({40});
  set.pairs = true;
  set.examples[0].second = words(40);
  const WordTokenizer tokenizer;
  const EncodedSet encoded(set, tokenizer, tokenizer.sequence_template(), {.truncation = {.max_length = 50}});
  const Augmenter augmenter({.swap = 1}, {}, 1);
  const Sequence changed = augmenter.sequence(encoded, 0, 0), plain = encoded.sequence(0);
  EXPECT_EQ(changed.ids.size(), 50u);
  EXPECT_EQ(changed.special, plain.special);
  EXPECT_EQ(changed.type_ids, plain.type_ids);
  EXPECT_NE(changed.ids, plain.ids);
  EXPECT_NE(std::vector(changed.ids.begin() + 1, changed.ids.begin() + 20),
            std::vector(changed.ids.begin() + 26, changed.ids.begin() + 45));
}

TEST_F(AugmentTest, SettingsAreChecked) {
  const auto refused = [](const AugmentOptions& options, std::string_view part) {
    expect_error([&] { Augmenter(options, {}, 1); }, ExitCode::usage, {part});
  };
  refused({.swap = 1.5}, "rate of swap is 1.5");
  refused({.deletion = -0.1}, "rate of deletion is -0.1");
  refused({.span_mask = 0.1}, "without a mask token");
  refused({.token_dropout = 0.1}, "without a token");
  refused({.synonyms = 0.1}, "without synonyms");
  refused({.span_length = 0.5}, "spans of 0.5");
}

}  // namespace
}  // namespace gradmill::test
