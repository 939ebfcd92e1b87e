// SPDX-License-Identifier: Apache-2.0
// Chooses the columns of a table that contain the texts and the label.
#pragma once

#include <span>
#include <string>

namespace gradmill {

// The user's choice; empty names are chosen automatically.
struct ColumnChoice {
  std::string first;   // given without `second`: single sentences
  std::string second;  // only together with `first`
  std::string label;
  std::string group;  // empty: no groups; never chosen automatically
};

struct Columns {
  std::string first;
  std::string second;  // empty: single sentences
  std::string label;   // empty: no labels
  std::string group;   // empty: no groups
  bool operator==(const Columns&) const = default;
};

// The label is the column `label`, `labels` or `score`. The texts are a well-known pair (sentence1/sentence2,
// text_a/text_b, premise/hypothesis, question/sentence, question1/question2, query/passage), or `text` or `sentence`,
// or otherwise the first one or two columns that are not a label, group or row number. Messages begin with `where`.
// Throws a data_error that lists the columns if one is missing (the label only if it is required), and a usage_error
// for an invalid choice.
Columns choose_columns(std::span<const std::string> names, const ColumnChoice& choice, bool require_label,
                       const std::string& where);

}  // namespace gradmill
