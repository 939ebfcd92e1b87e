// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/share_rounding.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace gradmill {
namespace {

// Fractions such as 0.1 are not exact, so a share this close to a whole number counts as whole.
constexpr double kNearlyWhole = 1e-6;

double clean(double share) {
  const double nearest = std::nearbyint(share);
  return std::abs(share - nearest) < kNearlyWhole ? nearest : share;
}

// Each row gives every column its share rounded down, and some columns one unit more (`extra`). A unit can move from
// one column to another within a row; columns that are out of bounds are balanced by chains of such moves.
class Rounding {
 public:
  Rounding(std::span<const int64_t> sizes, std::span<const double> fractions)
      : num_columns_(fractions.size()), totals_(num_columns_, 0), hints_(num_columns_ * num_columns_, 0) {
    const auto sum = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
    for (const double fraction : fractions) {
      lower_.push_back(static_cast<int64_t>(std::floor(clean(sum * fraction))));
      upper_.push_back(static_cast<int64_t>(std::ceil(clean(sum * fraction))));
    }
    for (const int64_t size : sizes) add_row(size, fractions);
    for (size_t column = 0; column < num_columns_; ++column) balance(column);
  }

  std::vector<std::vector<int64_t>> counts() && {
    for (size_t row = 0; row < counts_.size(); ++row) {
      for (size_t column = 0; column < num_columns_; ++column) counts_[row][column] += rows_[row][column].extra;
    }
    return std::move(counts_);
  }

 private:
  struct Cell {
    bool open = false;  // its share is not whole, so it may get one more unit
    bool extra = false;
  };

  void add_row(int64_t size, std::span<const double> fractions) {
    std::vector<int64_t>& counts = counts_.emplace_back();
    std::vector<Cell>& cells = rows_.emplace_back(num_columns_);
    std::vector<double> rest;
    for (size_t column = 0; column < num_columns_; ++column) {
      const double share = clean(static_cast<double>(size) * fractions[column]);
      counts.push_back(static_cast<int64_t>(std::floor(share)));
      rest.push_back(share - std::floor(share));
      cells[column].open = rest.back() > 0;
    }
    std::vector<size_t> order(num_columns_);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](size_t column) { return rest[column]; });
    int64_t left = size - std::accumulate(counts.begin(), counts.end(), int64_t{0});
    for (const size_t column : order) cells[column].extra = left-- > 0;
    for (size_t column = 0; column < num_columns_; ++column) totals_[column] += counts[column] + cells[column].extra;
  }

  void balance(size_t column) {
    while (totals_[column] > upper_[column]) {
      if (!move(
              column, [&](size_t other) { return totals_[other] < upper_[other]; }, true))
        return;
    }
    while (totals_[column] < lower_[column]) {
      if (!move(
              column, [&](size_t other) { return totals_[other] > lower_[other]; }, false))
        return;
    }
  }

  // Breadth-first search from `column` to a column that `takes` accepts. With `forward` units leave the column,
  // otherwise they arrive.
  template <class Takes>
  bool move(size_t column, Takes&& takes, bool forward) {
    std::vector<size_t> queue = {column}, before(num_columns_, num_columns_), through(num_columns_, 0);
    before[column] = column;
    for (size_t next = 0; next < queue.size(); ++next) {
      const size_t at = queue[next];
      if (at != column && takes(at)) {
        shift(column, at, before, through, forward);
        return true;
      }
      for (size_t other = 0; other < num_columns_; ++other) {
        if (before[other] != num_columns_) continue;
        const size_t row = forward ? find_row(at, other) : find_row(other, at);
        if (row == rows_.size()) continue;
        before[other] = at;
        through[other] = row;
        queue.push_back(other);
      }
    }
    assert(false);
    return false;
  }

  // Finds a row where a unit can move from one column to the other.
  size_t find_row(size_t from, size_t to) {
    // Starts where the last search ended, since earlier rows are mostly used up. Otherwise many classes would take
    // quadratic time.
    size_t& hint = hints_[from * num_columns_ + to];
    for (size_t tried = 0; tried < rows_.size(); ++tried, hint = (hint + 1) % rows_.size()) {
      const std::vector<Cell>& cells = rows_[hint];
      if (cells[from].extra && cells[to].open && !cells[to].extra) return hint;
    }
    return rows_.size();
  }

  void shift(size_t column, size_t end, const std::vector<size_t>& before, const std::vector<size_t>& through,
             bool forward) {
    for (size_t at = end; at != column; at = before[at]) {
      std::vector<Cell>& cells = rows_[through[at]];
      std::swap(cells[at].extra, cells[before[at]].extra);
    }
    totals_[column] += forward ? -1 : 1;
    totals_[end] += forward ? 1 : -1;
  }

  size_t num_columns_;
  std::vector<int64_t> lower_, upper_, totals_;  // by column
  std::vector<size_t> hints_;                    // per pair of columns
  std::vector<std::vector<int64_t>> counts_;     // per row and column: shares rounded down
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace

std::vector<std::vector<int64_t>> round_shares(std::span<const int64_t> sizes, std::span<const double> fractions) {
  return Rounding(sizes, fractions).counts();
}

}  // namespace gradmill
