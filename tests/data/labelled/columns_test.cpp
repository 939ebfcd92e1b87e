// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/columns.h"

#include <vector>

#include "support/errors.h"

namespace gradmill::test {
namespace {

using Names = std::vector<std::string>;

Columns choose(const Names& names, const ColumnChoice& choice = {}, bool require_label = true) {
  return choose_columns(names, choice, require_label, "'a.csv' line 2");
}

TEST(Columns, WellKnownNamesAreFound) {
  EXPECT_EQ(choose({"index", "sentence1", "sentence2", "label"}), (Columns{"sentence1", "sentence2", "label", ""}));
  EXPECT_EQ(choose({"label", "text_b", "text_a"}), (Columns{"text_a", "text_b", "label", ""}));
  EXPECT_EQ(choose({"labels", "premise", "hypothesis"}), (Columns{"premise", "hypothesis", "labels", ""}));
  EXPECT_EQ(choose({"sentence", "question", "label"}), (Columns{"question", "sentence", "label", ""}));
  EXPECT_EQ(choose({"score", "passage", "query"}), (Columns{"query", "passage", "score", ""}));
  EXPECT_EQ(choose({"id", "text", "date", "label"}), (Columns{"text", "", "label", ""}));
  EXPECT_EQ(choose({"sentence", "score", "label"}), (Columns{"sentence", "", "label", ""}));
}

TEST(Columns, OtherwiseTheFirstOnes) {
  EXPECT_EQ(choose({"idx", "left", "label", "right", "more"}), (Columns{"left", "right", "label", ""}));
  EXPECT_EQ(choose({"review", "label"}), (Columns{"review", "", "label", ""}));
  EXPECT_EQ(choose({"author", "review", "label"}, {.group = "author"}), (Columns{"review", "", "label", "author"}));
}

TEST(Columns, WhatIsAskedForIsTaken) {
  EXPECT_EQ(choose({"text", "title", "label", "stars"}, {.first = "title", .label = "stars"}),
            (Columns{"title", "", "stars", ""}));
  EXPECT_EQ(choose({"a", "b", "c"}, {.first = "c", .second = "a", .label = "b"}), (Columns{"c", "a", "b", ""}));
  EXPECT_EQ(choose({"label", "n"}, {.first = "label", .label = "n"}), (Columns{"label", "", "n", ""}));
  EXPECT_EQ(choose({"text"}, {}, false), (Columns{"text", "", "", ""}));
}

TEST(Columns, WhatIsMissingIsNamed) {
  expect_error(
      [] {
        choose({"text", "stars"});
      },
      ExitCode::data, {"'a.csv' line 2: no label column", "'text', 'stars'"});
  expect_error([] { choose({"text"}, {.label = "stars"}); }, ExitCode::data, {"no column 'stars'", "'text'"});
  expect_error([] { choose({"text", "label"}, {.group = "author"}); }, ExitCode::data, {"no column 'author'"});
  expect_error([] { choose({"id", "label"}); }, ExitCode::data, {"no text column"});
  expect_error([] { choose({"label", "score"}, {.first = "label"}, true); }, ExitCode::data, {"no label column"});
  expect_error([] { choose({"text", "label"}, {.second = "text"}); }, ExitCode::usage, {"without a first"});
  expect_error([] { choose({"text", "label"}, {.first = "text", .label = "text"}); }, ExitCode::usage, {"named twice"});
}

}  // namespace
}  // namespace gradmill::test
