// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/length_histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <cmath>
#include <vector>

namespace gradmill {

// A length below kSteps has its own bucket. Above, the bucket is given by the leading bit and the four bits after it.
size_t LengthHistogram::bucket_of(int64_t length) {
  const auto value = static_cast<uint64_t>(length);
  if (length < kSteps) return value;
  const size_t shift = std::bit_width(value) - std::bit_width(uint64_t{kSteps});
  return shift * kSteps + (value >> shift);
}

int64_t LengthHistogram::bucket_begin(size_t bucket) {
  if (bucket < 2 * kSteps) return static_cast<int64_t>(bucket);
  const size_t shift = bucket / kSteps - 1;
  return static_cast<int64_t>((bucket - shift * kSteps) << shift);
}

void LengthHistogram::add(int64_t length) {
  ++buckets_[bucket_of(length)];
  min_ = count_ == 0 ? length : std::min(min_, length);
  max_ = std::max(max_, length);
  sum_ = length > std::numeric_limits<int64_t>::max() - sum_ ? std::numeric_limits<int64_t>::max() : sum_ + length;
  ++count_;
}

int64_t LengthHistogram::quantile(double q) const {
  const auto wanted = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(q * static_cast<double>(count_))));
  int64_t seen = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= wanted) return std::clamp(bucket_begin(bucket), min_, max_);
  }
  return max_;
}

std::string LengthHistogram::render(const std::string& unit, int width) const {
  if (count_ == 0) return fmt::format("no {}\n", unit);
  std::string text = fmt::format("{}: mean {:.1f}, median {}, 90% {}, 99% {}, shortest {}, longest {}\n", unit, mean(),
                                 quantile(0.5), quantile(0.9), quantile(0.99), min_, max_);
  std::vector<int64_t> powers(65, 0);  // powers[i]: number of lengths with i bits
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    powers[static_cast<size_t>(std::bit_width(static_cast<uint64_t>(bucket_begin(bucket))))] += buckets_[bucket];
  }
  const int64_t most = std::ranges::max(powers);
  const auto first = std::ranges::find_if(powers, [](int64_t count) { return count > 0; }) - powers.begin();
  const auto digits = static_cast<int>(std::to_string(max_).size()), bar = std::max(width - 2 * digits - 24, 10);
  for (size_t bits = static_cast<size_t>(first);
       bits <= static_cast<size_t>(std::bit_width(static_cast<uint64_t>(max_))); ++bits) {
    const int64_t begin = bits == 0 ? 0 : int64_t{1} << (bits - 1), end = bits == 0 ? 0 : 2 * begin - 1;
    const double share = static_cast<double>(powers[bits]) / static_cast<double>(count_);
    const auto length = static_cast<size_t>(
        std::ceil(static_cast<double>(powers[bits]) / static_cast<double>(most) * static_cast<double>(bar)));
    text += fmt::format("  {:>{}} - {:<{}}  {:<{}} {:>5.1f}%\n", begin, digits, std::min(end, max_), digits,
                        std::string(length, '#'), bar, 100 * share);
  }
  return text;
}

}  // namespace gradmill
