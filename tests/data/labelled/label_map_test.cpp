// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/label_map.h"

#include <limits>

#include "support/errors.h"

namespace gradmill::test {
namespace {

using Weights = std::vector<std::pair<std::string, double>>;

TEST(LabelMap, NamesAndIds) {
  const LabelMap map({"no", "yes \"x\"\n"});
  EXPECT_EQ(map.size(), 2);
  EXPECT_EQ(map.find("no"), 0);
  EXPECT_EQ(map.find("maybe"), std::nullopt);
}

TEST(LabelMap, WrongOnesAreRefused) {
  expect_error([] { LabelMap({"a", "a"}); }, ExitCode::usage, {"'a' occurs twice"});
  expect_error([] { LabelMap({"a", ""}); }, ExitCode::usage, {"without a name"});
  expect_error([] { LabelMap(std::vector<std::string>(kMaxClasses + 1, "a")); }, ExitCode::usage, {"65537 labels"});
}

TEST(ClassWeights, BalancedOnesGiveEveryClassTheSameShare) {
  const std::vector<int32_t> classes = {0, 0, 0, 2, kUnlabelled};
  EXPECT_EQ(balanced_weights(classes, 3), (std::vector<float>{4.0f / 6, 0, 2}));
}

TEST(ClassWeights, GivenOnesAreByName) {
  const LabelMap map({"a", "b"});
  EXPECT_EQ(named_weights(map, Weights{{"b", 2}, {"a", 0.5}}), (std::vector<float>{0.5f, 2}));
  expect_error([&] { named_weights(map, Weights{{"b", 2}}); }, ExitCode::usage, {"'a' has no weight"});
  expect_error([&] { named_weights(map, Weights{{"c", 2}}); }, ExitCode::usage, {"unknown label 'c'"});
  for (const double weight : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    expect_error(
        [&] {
          named_weights(map, Weights{{"a", weight}, {"b", 1}});
        },
        ExitCode::usage, {"'a' has the weight"});
  }
}

}  // namespace
}  // namespace gradmill::test
