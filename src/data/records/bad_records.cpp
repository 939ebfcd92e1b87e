// SPDX-License-Identifier: Apache-2.0
#include "data/records/bad_records.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace gradmill {

void BadRecords::report(BadRecord kind, const std::filesystem::path& file, int64_t line, std::string_view what) {
  const auto place = [&] {
    return fmt::format("'{}' line {}: {}", file.string(), (lines_before_ ? lines_before_() : 0) + line, what);
  };
  if (policy_ == BadRecordPolicy::error) throw data_error(place(), "correct it, or have bad records skipped");
  if (num_skipped() == 0) first_ = place();
  ++counts_[static_cast<size_t>(kind)];
}

void BadRecords::merge(const BadRecords& later) {
  if (num_skipped() == 0) first_ = later.first_;
  for (size_t kind = 0; kind < counts_.size(); ++kind) counts_[kind] += later.counts_[kind];
}

int64_t BadRecords::num_skipped() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t{0}); }

std::string BadRecords::summary() const {
  constexpr std::array<std::string_view, kNumBadRecordKinds> kNames = {
      "too long", "not UTF-8", "malformed", "without a required field", "not to be tokenised"};
  if (num_skipped() == 0) return "";
  std::string kinds;
  for (size_t kind = 0; kind < kNames.size(); ++kind) {
    if (counts_[kind] > 0) kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", counts_[kind], kNames[kind]);
  }
  return fmt::format("skipped {} ({}); the first: {}", num_skipped(), kinds, first_);
}

std::string shown_name(std::string_view name) {
  constexpr size_t kLongest = 40;
  size_t size = std::min(name.size(), kLongest);
  // Does not cut inside a character.
  while (size > 0 && size < name.size() && (static_cast<unsigned char>(name[size]) & 0xc0u) == 0x80u) --size;
  std::string shown(name.substr(0, size));
  for (char& character : shown) {
    if (static_cast<unsigned char>(character) < 0x20) character = ' ';
  }
  return size < name.size() ? fmt::format("'{}...'", shown) : fmt::format("'{}'", shown);
}

}  // namespace gradmill
