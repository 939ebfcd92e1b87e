// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/split.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/error.h"
#include "data/tokens/epoch_order.h"
#include "data/labelled/group_assignment.h"
#include "data/labelled/share_rounding.h"

namespace gradmill {
namespace {

// Streams of shuffled() far from those of epochs, so that a split does not depend on the training order for the same
// seed.
constexpr int64_t kClassStream = int64_t{1} << 30, kFoldStream = kClassStream - 1;

constexpr std::array<std::string_view, 3> kSides = {"training", "validation", "test"};

std::vector<double> checked(const SplitFractions& fractions) {
  std::vector<double> list = {fractions.train, fractions.validation, fractions.test};
  const bool in_range = std::ranges::all_of(list, [](double part) { return part >= 0 && part <= 1; });
  const double sum = std::accumulate(list.begin(), list.end(), 0.0);
  if (!in_range || !(std::abs(sum - 1) < 1e-6)) {
    throw usage_error(fmt::format("a split into {}, {} and {}", list[0], list[1], list[2]),
                      "give three parts from 0 to 1 that add up to 1");
  }
  for (double& part : list) part /= sum;
  return list;
}

// The examples of each class in random order.
std::vector<std::vector<int32_t>> shuffled_classes(std::span<const int32_t> classes, uint64_t seed) {
  std::map<int32_t, std::vector<int32_t>> members;
  for (size_t i = 0; i < classes.size(); ++i) members[classes[i]].push_back(static_cast<int32_t>(i));
  std::vector<std::vector<int32_t>> result;
  for (const auto& [id, list] : members) {
    std::vector<int32_t>& mixed = result.emplace_back();
    for (const int32_t at : shuffled(std::ssize(list), seed, 0, kClassStream + std::ssize(result))) {
      mixed.push_back(list[static_cast<size_t>(at)]);
    }
  }
  return result;
}

// Renumbers the values as 0, 1, 2, ... in their order.
std::vector<int32_t> dense(std::span<const int32_t> values) {
  std::map<int32_t, int32_t> ids;
  for (const int32_t value : values) ids[value] = 0;
  int32_t next = 0;
  for (auto& [value, id] : ids) id = next++;
  std::vector<int32_t> result;
  for (const int32_t value : values) result.push_back(ids[value]);
  return result;
}

Split collect(std::span<const int32_t> sides, const std::vector<double>& fractions) {
  Split split;
  std::array<std::vector<int32_t>*, 3> lists = {&split.train, &split.validation, &split.test};
  for (size_t i = 0; i < sides.size(); ++i) lists[static_cast<size_t>(sides[i])]->push_back(static_cast<int32_t>(i));
  for (size_t side = 0; side < lists.size(); ++side) {
    if (fractions[side] == 0 || !lists[side]->empty()) continue;
    throw data_error(fmt::format("{} examples leave none for the {} part", sides.size(), kSides[side]),
                     "give more data, or other fractions");
  }
  return split;
}

void check_folds(int64_t num_folds, int64_t most, std::string_view what) {
  // More folds would take memory for every fold and class, and one training each.
  constexpr int64_t kMostFolds = 1000;
  if (num_folds < 2 || num_folds > kMostFolds) {
    throw usage_error(fmt::format("{} folds", num_folds), fmt::format("give a number from 2 to {}", kMostFolds));
  }
  if (num_folds > most) throw data_error(fmt::format("{} folds of {} {}", num_folds, most, what), "use fewer folds");
}

}  // namespace

Split stratified_split(std::span<const int32_t> classes, const SplitFractions& fractions, uint64_t seed) {
  const std::vector<double> parts = checked(fractions);
  const std::vector<std::vector<int32_t>> members = shuffled_classes(classes, seed);
  std::vector<int64_t> sizes;
  for (const std::vector<int32_t>& list : members) sizes.push_back(std::ssize(list));
  const std::vector<std::vector<int64_t>> counts = round_shares(sizes, parts);
  std::vector<int32_t> sides(classes.size());
  for (size_t row = 0; row < members.size(); ++row) {
    auto next = members[row].begin();
    for (size_t side = 0; side < parts.size(); ++side) {
      for (int64_t i = 0; i < counts[row][side]; ++i) sides[static_cast<size_t>(*next++)] = static_cast<int32_t>(side);
    }
  }
  return collect(sides, parts);
}

Split grouped_split(std::span<const int32_t> classes, std::span<const int32_t> groups, const SplitFractions& fractions,
                    uint64_t seed) {
  const std::vector<double> parts = checked(fractions);
  return collect(assign_groups(dense(classes), dense(groups), parts, seed), parts);
}

std::vector<int32_t> stratified_folds(std::span<const int32_t> classes, int64_t num_folds, uint64_t seed) {
  check_folds(num_folds, std::ssize(classes), "examples");
  // The classes are dealt out in turn, one after the other: every run of examples, and so every class, is dealt evenly.
  const std::vector<int32_t> order = shuffled(num_folds, seed, 0, kFoldStream);
  std::vector<int32_t> folds(classes.size());
  size_t dealt = 0;
  for (const std::vector<int32_t>& list : shuffled_classes(classes, seed)) {
    for (const int32_t example : list) folds[static_cast<size_t>(example)] = order[dealt++ % order.size()];
  }
  return folds;
}

std::vector<int32_t> stratified_group_folds(std::span<const int32_t> classes, std::span<const int32_t> groups,
                                            int64_t num_folds, uint64_t seed) {
  const std::vector<int32_t> ids = dense(groups);
  check_folds(num_folds, ids.empty() ? 0 : *std::ranges::max_element(ids) + int64_t{1}, "groups");
  const std::vector<double> parts(static_cast<size_t>(num_folds), 1.0 / static_cast<double>(num_folds));
  return assign_groups(dense(classes), ids, parts, seed);
}

Split fold_split(std::span<const int32_t> folds, int64_t fold) {
  Split split;
  for (size_t i = 0; i < folds.size(); ++i) {
    (folds[i] == fold ? split.validation : split.train).push_back(static_cast<int32_t>(i));
  }
  return split;
}

std::vector<int32_t> target_bins(std::span<const float> targets, int64_t count) {
  if (count < 1) throw usage_error(fmt::format("{} bins", count), "give at least 1");
  std::vector<int32_t> bins(targets.size(), -1), order;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!std::isnan(targets[i])) order.push_back(static_cast<int32_t>(i));
  }
  const auto target = [&](int32_t i) { return targets[static_cast<size_t>(i)]; };
  std::ranges::stable_sort(order, {}, target);
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const int64_t bin = static_cast<int64_t>(rank) * std::min(count, std::ssize(order)) / std::ssize(order);
    bins[static_cast<size_t>(order[rank])] = static_cast<int32_t>(bin);
  }
  return bins;
}

}  // namespace gradmill
