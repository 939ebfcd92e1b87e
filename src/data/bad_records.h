// SPDX-License-Identifier: Apache-2.0
// BadRecords: what becomes of records that cannot be used, an error or a count.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "data/record.h"

namespace gradmill {

enum class BadRecord { too_long, not_utf8, malformed, missing_field };
inline constexpr size_t kNumBadRecordKinds = 4;

class BadRecords {
 public:
  explicit BadRecords(BadRecordPolicy policy) : policy_(policy) {}

  // By policy counts the record or throws a data_error.
  void report(BadRecord kind, const std::filesystem::path& file, int64_t line, std::string_view what);

  int64_t num_skipped() const;
  int64_t num_skipped(BadRecord kind) const { return counts_[static_cast<size_t>(kind)]; }
  // One line: how many of each kind, and the first of them; empty if there were none.
  std::string summary() const;

 private:
  BadRecordPolicy policy_;
  std::array<int64_t, kNumBadRecordKinds> counts_ = {};
  std::string first_;
};

// A name from a file for a message: short, and in one line.
std::string shown_name(std::string_view name);

}  // namespace gradmill
