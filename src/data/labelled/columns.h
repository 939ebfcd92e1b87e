// SPDX-License-Identifier: Apache-2.0
// Which columns of a table hold the texts and the label.
#pragma once

#include <span>
#include <string>

namespace gradmill {

// What the user asks for; empty: chosen by name.
struct ColumnChoice {
  std::string first;   // given without `second`: single sentences
  std::string second;  // only together with `first`
  std::string label;
  std::string group;  // empty: no groups; never chosen by name
};

struct Columns {
  std::string first;
  std::string second;  // empty: single sentences
  std::string label;   // empty: no labels
  std::string group;   // empty: no groups
  bool operator==(const Columns&) const = default;
};

// The label is `label`, `labels` or `score`. Texts are a well-known pair (sentence1/sentence2, text_a/text_b,
// premise/hypothesis, question/sentence, question1/question2, query/passage), or `text` or `sentence`, or else the
// first one or two columns that are no label, group or row number. `where` begins messages. Throws a data_error that
// lists the columns where one is missing (the label only if it is required), a usage_error for a choice that makes no
// sense.
Columns choose_columns(std::span<const std::string> names, const ColumnChoice& choice, bool require_label,
                       const std::string& where);

}  // namespace gradmill
