// SPDX-License-Identifier: Apache-2.0
// LengthHistogram: the distribution of document lengths, for any number of documents, in a few kilobytes.
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
  // The length that the fraction `q` of all lengths does not exceed. Exact below 16, otherwise at most one sixteenth
  // too small.
  int64_t quantile(double q) const;
  // A line of numbers and a bar per power of two, at most `width` columns wide. `unit` names what is counted.
  std::string render(const std::string& unit, int width = 80) const;

 private:
  static constexpr int64_t kSteps = 16;  // buckets of equal size between two powers of two
  static size_t bucket_of(int64_t length);
  static int64_t bucket_begin(size_t bucket);

  std::array<int64_t, 64 * kSteps> buckets_{};
  int64_t count_ = 0, sum_ = 0, min_ = 0, max_ = 0;
};

}  // namespace gradmill
