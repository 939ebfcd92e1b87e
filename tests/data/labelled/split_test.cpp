// SPDX-License-Identifier: Apache-2.0
// Balance, leakage, coverage.
#include "data/labelled/split.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "core/rng.h"
#include "support/errors.h"
#include "data/labelled/share_rounding.h"

namespace gradmill::test {
namespace {

std::vector<int32_t> random_classes(int64_t count, uint32_t num_classes, uint32_t seed) {
  std::vector<int32_t> classes;
  for (uint32_t i = 0; i < count; ++i) {
    const RandomBlock words = philox(seed, {i, 0, 0, 0});
    classes.push_back(static_cast<int32_t>(std::min(words[0] % num_classes, words[1] % num_classes)));
  }
  return classes;
}

// Checks that each class has its share on the side, rounded up or down.
void expect_share(const std::vector<int32_t>& classes, const std::vector<int32_t>& side, double fraction) {
  std::map<int32_t, int64_t> total, have;
  for (const int32_t id : classes) ++total[id];
  for (const int32_t i : side) ++have[classes[static_cast<size_t>(i)]];
  const auto expect_rounded = [&](int64_t count, int64_t whole) {
    EXPECT_LT(std::abs(static_cast<double>(count) - fraction * static_cast<double>(whole)), 1.0 - 1e-9)
        << count << " of " << whole;
  };
  for (const auto& [id, count] : total) expect_rounded(have[id], count);
  expect_rounded(std::ssize(side), std::ssize(classes));
}

void expect_partition(const Split& split, int64_t count) {
  std::vector<int32_t> all;
  for (const auto* side : {&split.train, &split.validation, &split.test}) {
    EXPECT_TRUE(std::ranges::is_sorted(*side));
    all.insert(all.end(), side->begin(), side->end());
  }
  std::ranges::sort(all);
  ASSERT_EQ(std::ssize(all), count);
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(all[static_cast<size_t>(i)], i);
}

TEST(StratifiedSplit, EveryClassHasItsShareOnEverySide) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const std::vector<int32_t> classes = random_classes(50 + 37 * seed, 1 + seed % 12, seed);
    for (const SplitFractions& parts : {SplitFractions{0.8, 0.1, 0.1}, SplitFractions{0.7, 0.3, 0},
                                        SplitFractions{1.0 / 3, 1.0 / 3, 1.0 / 3}, SplitFractions{0.55, 0.27, 0.18}}) {
      const Split split = stratified_split(classes, parts, seed);
      expect_partition(split, std::ssize(classes));
      expect_share(classes, split.train, parts.train);
      expect_share(classes, split.validation, parts.validation);
      expect_share(classes, split.test, parts.test);
    }
  }
}

TEST(StratifiedSplit, SeedsMatterAndNothingElse) {
  const std::vector<int32_t> classes = random_classes(200, 3, 1);
  EXPECT_EQ(stratified_split(classes, {}, 5).test, stratified_split(classes, {}, 5).test);
  EXPECT_NE(stratified_split(classes, {}, 5).test, stratified_split(classes, {}, 6).test);
}

// With many classes of one example, only whole sides can have their shares.
TEST(StratifiedSplit, RareClassesAreSharedOut) {
  std::vector<int32_t> classes(60000);
  std::iota(classes.begin(), classes.end(), 0);
  const Split split = stratified_split(classes, {0.5, 0.3, 0.2}, 1);
  EXPECT_EQ(split.train.size(), 30000u);
  EXPECT_EQ(split.validation.size(), 18000u);
  EXPECT_EQ(split.test.size(), 12000u);
}

TEST(StratifiedSplit, WrongOnesAreRefused) {
  const std::vector<int32_t> classes = {0, 1, 0, 1};
  for (const SplitFractions& parts :
       {SplitFractions{0.8, 0.1, 0.2}, SplitFractions{1.1, -0.1, 0}, SplitFractions{std::nan(""), 0.5, 0.5}}) {
    expect_error([&] { stratified_split(classes, parts, 1); }, ExitCode::usage, {"a split into", "add up to 1"});
  }
  expect_error([&] { stratified_split(classes, {0.98, 0.01, 0.01}, 1); }, ExitCode::data, {"4 examples leave none"});
  expect_error([&] { grouped_split(classes, classes, {0.4, 0.3, 0.3}, 1); }, ExitCode::data, {"leave none"});
}

TEST(RoundShares, ColumnsAndRowsAreExact) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::vector<int64_t> sizes;
    const RandomBlock words = philox(seed, {0, 0, 0, 1});
    for (uint32_t i = 0; i < 1 + words[0] % 20; ++i) sizes.push_back(philox(seed, {i, 1, 0, 1})[0] % 9);
    std::vector<double> fractions;
    for (uint32_t i = 0; i < 2 + words[1] % 4; ++i) fractions.push_back(1 + philox(seed, {i, 2, 0, 1})[0] % 10);
    const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
    for (double& fraction : fractions) fraction /= sum;
    const auto counts = round_shares(sizes, fractions);
    const auto all = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
    for (size_t column = 0; column < fractions.size(); ++column) {
      double total = 0;
      for (size_t row = 0; row < sizes.size(); ++row) {
        const auto count = static_cast<double>(counts[row][column]);
        EXPECT_LT(std::abs(count - fractions[column] * static_cast<double>(sizes[row])), 1 - 1e-9) << seed;
        total += count;
      }
      EXPECT_LT(std::abs(total - fractions[column] * all), 1 - 1e-9) << seed;
    }
    for (size_t row = 0; row < sizes.size(); ++row) {
      EXPECT_EQ(std::accumulate(counts[row].begin(), counts[row].end(), int64_t{0}), sizes[row]);
    }
  }
}

TEST(StratifiedFolds, EveryClassHasItsShareInEveryFold) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<int32_t> classes = random_classes(30 + 41 * seed, 1 + seed % 7, seed);
    for (const int64_t num_folds : {2, 3, 5, 10, 30}) {
      const std::vector<int32_t> folds = stratified_folds(classes, num_folds, seed);
      std::vector<int32_t> tested;
      for (int64_t fold = 0; fold < num_folds; ++fold) {
        const Split split = fold_split(folds, fold);
        expect_partition(split, std::ssize(classes));
        expect_share(classes, split.validation, 1.0 / static_cast<double>(num_folds));
        tested.insert(tested.end(), split.validation.begin(), split.validation.end());
      }
      EXPECT_EQ(std::set(tested.begin(), tested.end()).size(), classes.size());
    }
  }
  EXPECT_NE(stratified_folds(random_classes(99, 2, 1), 5, 1), stratified_folds(random_classes(99, 2, 1), 5, 2));
}

TEST(StratifiedFolds, WrongOnesAreRefused) {
  const std::vector<int32_t> classes = {0, 1, 0, 1}, groups = {0, 0, 1, 1};
  expect_error([&] { stratified_folds(classes, 1, 0); }, ExitCode::usage, {"1 folds"});
  expect_error([&] { stratified_folds(classes, int64_t{1} << 40, 0); }, ExitCode::usage, {"from 2 to 1000"});
  expect_error([&] { stratified_folds(classes, 5, 0); }, ExitCode::data, {"5 folds of 4 examples"});
  expect_error([&] { stratified_group_folds(classes, groups, 3, 0); }, ExitCode::data, {"3 folds of 2 groups"});
  expect_error([&] { stratified_group_folds({}, {}, 3, 0); }, ExitCode::data, {"3 folds of 0 groups"});
}

TEST(GroupedSplits, NoGroupIsOnTwoSides) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<int32_t> classes = random_classes(400, 4, seed);
    std::vector<int32_t> groups = random_classes(400, 10 + 5 * seed, seed + 100);
    for (int32_t& group : groups) group = 1000 - 3 * group;  // any numbers are allowed
    const auto sides_of = [&](const std::vector<int32_t>& side) {
      std::set<int32_t> found;
      for (const int32_t i : side) found.insert(groups[static_cast<size_t>(i)]);
      return found;
    };
    const Split split = grouped_split(classes, groups, {0.6, 0.2, 0.2}, seed);
    expect_partition(split, 400);
    const auto train = sides_of(split.train), validation = sides_of(split.validation), test = sides_of(split.test);
    EXPECT_EQ(train.size() + validation.size() + test.size(), std::set(groups.begin(), groups.end()).size());

    const std::vector<int32_t> folds = stratified_group_folds(classes, groups, 5, seed);
    std::map<int32_t, int32_t> fold_of;
    for (size_t i = 0; i < groups.size(); ++i) {
      EXPECT_EQ(fold_of.try_emplace(groups[i], folds[i]).first->second, folds[i]);
    }
    EXPECT_EQ(std::set(folds.begin(), folds.end()).size(), 5u);
  }
}

// Groups of one example can be balanced as exactly as examples without groups.
TEST(GroupedSplits, GroupsOfOneAreBalancedExactly) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const std::vector<int32_t> classes = random_classes(211, 3, seed);
    std::vector<int32_t> groups(classes.size());
    std::iota(groups.begin(), groups.end(), 0);
    const std::vector<int32_t> folds = stratified_group_folds(classes, groups, 4, seed);
    for (int64_t fold = 0; fold < 4; ++fold) {
      const Split split = fold_split(folds, fold);
      std::map<int32_t, int64_t> total, have;
      for (const int32_t id : classes) ++total[id];
      for (const int32_t i : split.validation) ++have[classes[static_cast<size_t>(i)]];
      for (const auto& [id, count] : total) {
        EXPECT_LE(std::abs(static_cast<double>(have[id]) - static_cast<double>(count) / 4), 1.0);
      }
    }
  }
}

TEST(GroupedSplits, EverySideGetsAGroup) {
  // One group has nine tenths of all examples.
  std::vector<int32_t> classes(100, 0), groups(100, 0);
  for (size_t i = 90; i < 100; ++i) groups[i] = static_cast<int32_t>(i) % 4 + 1;
  for (uint32_t seed = 0; seed < 5; ++seed) {
    const std::vector<int32_t> folds = stratified_group_folds(classes, groups, 5, seed);
    EXPECT_EQ(std::set(folds.begin(), folds.end()).size(), 5u);
  }
}

TEST(TargetBins, HaveTheSameSize) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(target_bins(std::vector<float>{5, 1, nan, 3, 2}, 2), (std::vector<int32_t>{1, 0, -1, 1, 0}));
  EXPECT_EQ(target_bins(std::vector<float>{5, 1}, 10), (std::vector<int32_t>{1, 0}));
  expect_error([] { target_bins({}, 0); }, ExitCode::usage, {"0 bins"});
}

}  // namespace
}  // namespace gradmill::test
