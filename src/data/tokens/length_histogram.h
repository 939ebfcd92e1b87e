// SPDX-License-Identifier: Apache-2.0
// LengthHistogram: how long documents are, of any number of them, in a few kilobytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace gradmill {

class LengthHistogram {
 public:
  void add(int64_t length);

  int64_t count() const { return count_; }
  int64_t sum() const { return sum_; }
  int64_t min() const { return min_; }
  int64_t max() const { return max_; }
  double mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }
  // A length that the share `q` of all do not pass; exact below 16, else at most a sixteenth too small.
  int64_t quantile(double q) const;
  // A line of numbers and a bar for every power of two, at most `width` columns. `unit` is what is counted.
  std::string render(const std::string& unit, int width = 80) const;

 private:
  static constexpr int64_t kSteps = 16;  // buckets of equal size between two powers of two
  static size_t bucket_of(int64_t length);
  static int64_t bucket_begin(size_t bucket);

  std::array<int64_t, 64 * kSteps> buckets_{};
  int64_t count_ = 0, sum_ = 0, min_ = 0, max_ = 0;
};

}  // namespace gradmill
