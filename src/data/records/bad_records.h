// SPDX-License-Identifier: Apache-2.0
// BadRecords: handles records that cannot be used: an error, or a count.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "data/records/record.h"

namespace gradmill {

enum class BadRecord { too_long, not_utf8, malformed, missing_field, not_encodable };
inline constexpr size_t kNumBadRecordKinds = 5;

class BadRecords {
 public:
  // For a part of a file, lines are counted from its first. `lines_before` returns the number of lines before it. It is
  // called only when a message needs it, because it may have to read the file.
  explicit BadRecords(BadRecordPolicy policy, std::function<int64_t()> lines_before = {})
      : policy_(policy), lines_before_(std::move(lines_before)) {}

  // Depending on the policy, counts the record or throws a data_error.
  void report(BadRecord kind, const std::filesystem::path& file, int64_t line, std::string_view what);

  // Adds the counts of a part that follows those counted so far.
  void merge(const BadRecords& later);
  int64_t num_skipped() const;
  int64_t num_skipped(BadRecord kind) const { return counts_[static_cast<size_t>(kind)]; }
  // One line with the number of each kind and the first bad record; empty if there were none.
  std::string summary() const;

 private:
  BadRecordPolicy policy_;
  std::function<int64_t()> lines_before_;
  std::array<int64_t, kNumBadRecordKinds> counts_ = {};
  std::string first_;
};

// A name from a file, shortened to fit on one line of a message.
std::string shown_name(std::string_view name);

}  // namespace gradmill
