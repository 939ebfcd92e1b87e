// SPDX-License-Identifier: Apache-2.0
// LabelledSet: texts, or pairs of them, with the class or the number that a model shall learn.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/records/record.h"
#include "data/records/source_list.h"
#include "data/labelled/columns.h"
#include "data/labelled/label_map.h"

namespace gradmill {

struct LabelledExample {
  std::string first, second;    // `second` only in pairs
  int32_t label = kUnlabelled;  // a class; kUnlabelled in regression too
  float target = 0;             // in regression: not a number where there is none
  int32_t group = 0;            // equal where the group column is
  int32_t file = 0;             // of LabelledSet::files
  int64_t line = 0;             // where its record begins
};

struct LabelledSet {
  bool regression = false;
  bool pairs = false;
  LabelMap labels;  // empty in regression, and where nothing is labelled
  std::vector<LabelledExample> examples;
  std::vector<std::string> files;
  Columns columns;
  int64_t num_groups = 0;  // 0: no group column
  int64_t num_skipped = 0;
  std::string skipped;  // one line on bad records that were passed over; empty: none

  int64_t size() const { return static_cast<int64_t>(examples.size()); }
  bool is_labelled(const LabelledExample& example) const;
  // "'file' line n", as messages begin.
  std::string where(const LabelledExample& example) const;
  // Of all examples, in order.
  std::vector<int32_t> classes() const;
  std::vector<int32_t> groups() const;
};

// What the label column holds. Automatic: numbers if every label is one, then classes if they are whole and a
// regression otherwise; or else words. Words and numbers together are an error.
enum class LabelKind : uint8_t { automatic, words, integers, real };

struct LabelledOptions {
  ColumnChoice columns = {};
  LabelKind label_kind = LabelKind::automatic;
  // The classes of a model that is there already. Labels are their names or, where no name is a whole number, their
  // ids.
  std::optional<LabelMap> labels = {};
  // A record without a label (none, empty, or -1 in a classification) is bad; without, it is kept as unlabelled.
  bool require_labels = true;
  BadRecordPolicy bad_records = BadRecordPolicy::error;
  int64_t max_record_bytes = int64_t{16} << 20;
  bool tsv_quotes = false;
  int64_t max_memory = int64_t{8} << 30;  // bytes for all examples: the set is kept in memory
};

}  // namespace gradmill
