// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/group_assignment.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "data/tokens/epoch_order.h"

namespace gradmill {
namespace {

// A stream of shuffled() that differs from those in split.cpp.
constexpr int64_t kGroupStream = (int64_t{1} << 30) - 2;
constexpr int kRounds = 10;

struct ClassCount {
  size_t id;
  double count;
};

// The examples of a group by class. Class 0 here stands for all classes together, so that the size of each side counts
// too.
struct Group {
  std::vector<ClassCount> counts;
  double weight = 0;  // the fraction of the classes that it contains
  size_t side = 0;
};

class Assignment {
 public:
  Assignment(std::span<const int32_t> classes, std::span<const int32_t> groups, std::span<const double> fractions)
      : fractions_(fractions) {
    const auto count = [](std::span<const int32_t> ids) {
      return ids.empty() ? size_t{0} : static_cast<size_t>(*std::ranges::max_element(ids)) + 1;
    };
    totals_.assign(count(classes) + 1, 0.0);
    std::vector<std::map<size_t, double>> members(count(groups));
    for (size_t i = 0; i < classes.size(); ++i) {
      for (const size_t id : {size_t{0}, static_cast<size_t>(classes[i]) + 1}) {
        ++totals_[id];
        ++members[static_cast<size_t>(groups[i])][id];
      }
    }
    have_.assign(fractions.size(), std::vector<double>(totals_.size(), 0.0));
    num_groups_.assign(fractions.size(), 0);
    for (const std::map<size_t, double>& counts : members) {
      Group& group = groups_.emplace_back();
      for (const auto& [id, number] : counts) {
        group.counts.push_back({id, number});
        group.weight += number * number / (totals_[id] * totals_[id]);
      }
    }
  }

  void deal(uint64_t seed) {
    std::vector<int32_t> order = shuffled(std::ssize(groups_), seed, 0, kGroupStream);
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](int32_t group) { return at(group).weight; });
    size_t left = order.size();
    for (const int32_t id : order) {
      const size_t side = best_side(at(id), left-- <= num_empty_sides());
      put(at(id), side, 1);
    }
    for (int round = 0; round < kRounds && improve(order); ++round) continue;
  }

  std::vector<int32_t> sides(std::span<const int32_t> groups) {
    std::vector<int32_t> result;
    for (const int32_t group : groups) result.push_back(static_cast<int32_t>(at(group).side));
    return result;
  }

 private:
  Group& at(int32_t id) { return groups_[static_cast<size_t>(id)]; }

  size_t num_empty_sides() const {
    size_t empty = 0;
    for (size_t side = 0; side < fractions_.size(); ++side) empty += fractions_[side] > 0 && num_groups_[side] == 0;
    return empty;
  }

  // The change of the squared distance from all shares if the group is added (+1) or removed (-1). Each class is scaled
  // by its size and each side by its share.
  double change(const Group& group, size_t side, double sign) const {
    double sum = 0;
    for (const auto& [id, count] : group.counts) {
      const double off = have_[side][id] - fractions_[side] * totals_[id];
      sum += count * (count + 2 * sign * off) / (totals_[id] * totals_[id]);
    }
    return sum / fractions_[side];
  }

  size_t best_side(const Group& group, bool only_empty) const {
    size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t side = 0; side < fractions_.size(); ++side) {
      if (fractions_[side] == 0 || (only_empty && num_groups_[side] > 0)) continue;
      if (const double cost = change(group, side, 1); cost < least) {
        least = cost;
        best = side;
      }
    }
    return best;
  }

  void put(Group& group, size_t side, double sign) {
    for (const auto& [id, count] : group.counts) have_[side][id] += sign * count;
    num_groups_[side] += sign > 0 ? 1 : -1;
    group.side = side;
  }

  bool improve(const std::vector<int32_t>& order) {
    bool moved = false;
    for (const int32_t id : order) {
      Group& group = at(id);
      const size_t from = group.side;
      if (num_groups_[from] == 1) continue;
      const double gain = change(group, from, -1);
      put(group, from, -1);
      const size_t to = best_side(group, false);
      // The margin keeps rounding errors from moving groups back and forth.
      const bool better = to != from && gain + change(group, to, 1) < -1e-12;
      put(group, better ? to : from, 1);
      moved = moved || better;
    }
    return moved;
  }

  std::span<const double> fractions_;
  std::vector<double> totals_;             // by class
  std::vector<std::vector<double>> have_;  // by side and class
  std::vector<int64_t> num_groups_;        // by side
  std::vector<Group> groups_;
};

}  // namespace

std::vector<int32_t> assign_groups(std::span<const int32_t> classes, std::span<const int32_t> groups,
                                   std::span<const double> fractions, uint64_t seed) {
  Assignment assignment(classes, groups, fractions);
  assignment.deal(seed);
  return assignment.sides(groups);
}

}  // namespace gradmill
