// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/inspect.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "data/tokens/corpus_tokenizer.h"
#include "data/tokens/length_histogram.h"
#include "data/tokens/number_corpus.h"
#include "data/tokens/tokenize.h"
#include "data/tokens/train_tokenizer.h"
#include "support/errors.h"

namespace gradmill::test {
namespace {

void expect_parts(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (std::string_view part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " not in:\n" << text;
}

TEST(LengthHistogram, QuantilesAreAsCloseAsPromised) {
  std::mt19937_64 random(1);
  std::vector<int64_t> lengths;
  LengthHistogram histogram;
  for (int i = 0; i < 5000; ++i) {
    lengths.push_back(static_cast<int64_t>(random() >> (random() % 63 + 1)));
    histogram.add(lengths.back());
  }
  std::ranges::sort(lengths);
  for (double q : {0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 1.0}) {
    const auto rank = std::max<size_t>(1, static_cast<size_t>(std::ceil(q * 5000)));
    const int64_t exact = lengths[rank - 1], given = histogram.quantile(q);
    EXPECT_LE(given, exact) << q;
    EXPECT_GE(given, exact - exact / 16 - 1) << q;
  }
  EXPECT_EQ(histogram.min(), lengths.front());
  EXPECT_EQ(histogram.max(), lengths.back());
}

TEST(LengthHistogram, ShowsABarForEveryPowerOfTwo) {
  LengthHistogram histogram;
  EXPECT_EQ(histogram.render("words"), "no words\n");
  for (int64_t length : {0, 1, 4, 5, 7, 100}) histogram.add(length);
  const std::string text = histogram.render("words", 50);
  expect_parts(text, {"mean 19.5", "median 4", "shortest 0, longest 100", "4 - 7", " 50.0%", "64 - 100", " 16.7%"});
  EXPECT_EQ(std::ranges::count(text, '\n'), 9);  // the lengths 0, 1, 2-3, 4-7, ... 64-127
}

TEST(ShowRow, PutsWhatIsNoTargetInBrackets) {
  PackedBatchBuilder builder(1, 8, 3);
  const auto fill = [&](std::vector<int32_t> tokens, std::vector<int32_t> targets) {
    const auto sequence = builder.add(static_cast<int32_t>(tokens.size()));
    std::ranges::copy(tokens, sequence.tokens.begin());
    std::ranges::copy(targets, sequence.targets.begin());
  };
  fill({1, 2, 3, 4}, {-100, 3, 4, -100});
  fill({5, 6}, {6, 7});
  expect_parts(show_row(builder.finish(), nullptr, 80),
               {"2 sequences, 6 tokens, 4 targets", "4 | [1 2] 3 4\n", "2 | [5] 6\n"});
}

class InspectTest : public testing::Test {
 protected:
  InspectTest() {
    std::string lines;
    for (int i = 0; i < 50; ++i) lines += fmt::format("{{\"text\": \"the {}th little text\"}}\n", i);
    data_.write("a.jsonl", lines);
    train_tokenizer(sources_of(data_), work_.path() / "tokenizer",
                    {.bpe = {.vocab_size = 300, .special_tokens = {"<|endoftext|>"}}});
    options_.sources = {data_.path().string()};
    options_.pack.context = 32;
    options_.batch_size = 4;
  }

  TemporaryFolder data_, work_;
  InspectOptions options_;
};

TEST_F(InspectTest, RecordsWithoutATokenizer) {
  expect_parts(inspect_data(options_), {"50 documents", "bytes a document", "a.jsonl' line 1", "the 0th little text"});
  options_.max_documents = 10;
  expect_parts(inspect_data(options_), {"the first 10 documents"});
}

TEST_F(InspectTest, RecordsAndShardsAsTheModelSeesThem) {
  options_.tokenizer = (work_.path() / "tokenizer").string();
  expect_parts(inspect_data(options_), {"50 documents", "tokens a document", "at context 32 and 4 rows a step",
                                        "steps an epoch", "row 0", "little text<|endoftext|>"});
  const CorpusTokenizer tokenizer = open_corpus_tokenizer(options_.tokenizer);
  const TokenizeReport report =
      tokenize_corpus(sources_of(data_), tokenizer.text("text", "auto"), work_.path() / "tokens", {});
  options_.sources = {(work_.path() / "tokens").string()};
  const std::string text = inspect_data(options_);
  expect_parts(text, {"1 token shard,", "50 documents", fmt::format("{} tokens\n", report.manifest.num_tokens()),
                      "little text<|endoftext|>"});
  options_.tokenizer.clear();
  expect_parts(inspect_data(options_), {"row 0", " 0\n"});
}

TEST_F(InspectTest, RefusesShardsOfAnotherTokenizer) {
  tokenize_corpus(sources_of(data_), open_corpus_tokenizer(work_.path() / "tokenizer").text("text", "none"),
                  work_.path() / "tokens", {});
  train_tokenizer(sources_of(data_), work_.path() / "other", {.bpe = {.vocab_size = 290}});
  options_.sources = {(work_.path() / "tokens").string()};
  options_.tokenizer = (work_.path() / "other").string();
  expect_error([&] { inspect_data(options_); }, ExitCode::data, {"not of the tokenizer"});
}

}  // namespace
}  // namespace gradmill::test
