// SPDX-License-Identifier: Apache-2.0
// BadRecords: what becomes of records that cannot be used, an error or a count.
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
  // Lines of a part of a file are counted from its first: `lines_before` says how many there are before that. It is
  // called only for what a message names, since it may have to read the file.
  explicit BadRecords(BadRecordPolicy policy, std::function<int64_t()> lines_before = {})
      : policy_(policy), lines_before_(std::move(lines_before)) {}

  // By policy counts the record or throws a data_error.
  void report(BadRecord kind, const std::filesystem::path& file, int64_t line, std::string_view what);

  // Adds the counts of a part that comes behind what was counted so far.
  void merge(const BadRecords& later);
  int64_t num_skipped() const;
  int64_t num_skipped(BadRecord kind) const { return counts_[static_cast<size_t>(kind)]; }
  // One line: how many of each kind, and the first of them; empty if there were none.
  std::string summary() const;

 private:
  BadRecordPolicy policy_;
  std::function<int64_t()> lines_before_;
  std::array<int64_t, kNumBadRecordKinds> counts_ = {};
  std::string first_;
};

// A name from a file for a message: short, and in one line.
std::string shown_name(std::string_view name);

}  // namespace gradmill
