// SPDX-License-Identifier: Apache-2.0
// LabelledSet: texts, or pairs of texts, with the class or number that a model should learn.
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
  std::string first, second;    // `second` is used for pairs only
  int32_t label = kUnlabelled;  // a class; always kUnlabelled in a regression
  float target = 0;             // regression only: NaN if there is none
  int32_t group = 0;            // examples have equal groups if their group column is equal
  int32_t file = 0;             // index into LabelledSet::files
  int64_t line = 0;             // the line where its record begins
};

struct LabelledSet {
  bool regression = false;
  bool pairs = false;
  LabelMap labels;  // empty in a regression, and if nothing is labelled
  std::vector<LabelledExample> examples;
  std::vector<std::string> files;
  Columns columns;
  int64_t num_groups = 0;  // 0: no group column
  int64_t num_skipped = 0;
  std::string skipped;  // one line about bad records that were skipped; empty if there were none

  int64_t size() const { return static_cast<int64_t>(examples.size()); }
  bool is_labelled(const LabelledExample& example) const;
  // "'file' line n", to begin a message with.
  std::string where(const LabelledExample& example) const;
  // The classes of all examples, in order.
  std::vector<int32_t> classes() const;
  std::vector<int32_t> groups() const;
};

// The content of the label column. automatic: if every label is a number, then classes if all are whole and a
// regression otherwise; if no label is a number, words. A mixture of words and numbers is an error.
enum class LabelKind : uint8_t { automatic, words, integers, real };

struct LabelledOptions {
  ColumnChoice columns = {};
  LabelKind label_kind = LabelKind::automatic;
  // The classes of an existing model. Labels are their names or, if no name is a whole number, their ids.
  std::optional<LabelMap> labels = {};
  // If true, a record without a label (none, empty, or -1 in a classification) is bad. If false, it is kept as
  // unlabelled.
  bool require_labels = true;
  BadRecordPolicy bad_records = BadRecordPolicy::error;
  int64_t max_record_bytes = int64_t{16} << 20;
  bool tsv_quotes = false;
  int64_t max_memory = int64_t{8} << 30;  // in bytes, for all examples: the set is kept in memory
};

}  // namespace gradmill
