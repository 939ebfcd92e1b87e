// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/summary.h"

#include <gtest/gtest.h>

#include <limits>

#include "data/labelled/word_tokenizer.h"

namespace gradmill::test {
namespace {

TEST(LabelledSummary, CountsAndLengths) {
  std::vector<int64_t> lengths(100, 10);
  lengths[0] = 0;
  lengths[99] = 118;
  LabelledSet set = set_of_lengths(lengths, 3);
  set.examples[1].label = kUnlabelled;
  set.num_skipped = 2;
  const WordTokenizer tokenizer;
  const EncodedSet encoded(set, tokenizer, tokenizer.sequence_template(), {.truncation = {.max_length = 64}});
  const LabelledSummary summary = summarize(set, &encoded);
  EXPECT_EQ(summary.num_examples, 100);
  EXPECT_EQ(summary.num_empty, 1);
  EXPECT_EQ(summary.num_unlabelled, 1);
  EXPECT_EQ(summary.label_counts, (std::vector<int64_t>{34, 32, 33}));
  EXPECT_EQ(summary.total_tokens, 2 + 98 * 12 + 120);
  EXPECT_EQ(summary.shortest, 2);
  EXPECT_EQ(summary.longest, 120);
  EXPECT_EQ(summary.median, 12);
  EXPECT_EQ(summary.percentile_95, 12);
  EXPECT_EQ(summary.num_cut, 1);
  int64_t counted = 0;
  for (const LengthBin& bin : summary.lengths) counted += bin.count;
  EXPECT_EQ(counted, 100);
  EXPECT_LE(summary.lengths.size(), 12u);
  EXPECT_EQ(summary.lengths[0].first, 0);
  EXPECT_EQ(summary.lengths[0].last, 19);
  EXPECT_EQ(describe(summary),
            "examples: 100 texts, 1 unlabelled, 1 empty, 2 bad records skipped\n"
            "labels: 3\n"
            "  'class 0'         34   34.0%  ########################################\n"
            "  'class 1'         32   32.0%  #####################################\n"
            "  'class 2'         33   33.0%  ######################################\n"
            "tokens: 1298 in all; lengths 2 to 120, median 12, 95% up to 12\n"
            "           0-19         99   99.0%  ########################################\n"
            "          20-39          0    0.0%  \n"
            "          40-59          0    0.0%  \n"
            "          60-79          0    0.0%  \n"
            "          80-99          0    0.0%  \n"
            "        100-119          0    0.0%  \n"
            "        120-139          1    1.0%  #\n"
            "cut at 64 tokens: 1 examples, 1.0%\n");
}

TEST(LabelledSummary, PartsRegressionsAndManyLabels) {
  LabelledSet set = set_of_lengths(std::vector<int64_t>(90, 1), 30);
  const LabelledSummary part = summarize(set, std::vector<int32_t>{0, 1, 30, 60}, nullptr);
  EXPECT_EQ(part.label_counts[0], 3);
  EXPECT_EQ(describe(part).substr(0, 35), "examples: 4 texts\nlabels: 30\n  'cla");
  EXPECT_NE(describe(part).find("and 10 more"), std::string::npos);
  EXPECT_EQ(describe(part).find("tokens"), std::string::npos);

  set.regression = true;
  set.labels = {};
  for (LabelledExample& example : set.examples) example.target = example.line % 2 == 0 ? 1.0f : 3.0f;
  set.examples[0].target = set.examples[1].target = std::numeric_limits<float>::quiet_NaN();
  const LabelledSummary summary = summarize(set, nullptr);
  EXPECT_EQ(summary.num_unlabelled, 2);
  EXPECT_EQ(describe(summary), "examples: 90 texts, 2 unlabelled\ntargets: 1 to 3, mean 2, standard deviation 1\n");
}

}  // namespace
}  // namespace gradmill::test
