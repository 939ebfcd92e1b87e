// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/columns.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/records/bad_records.h"

namespace gradmill {
namespace {

using Names = std::span<const std::string>;

constexpr std::string_view kLabels[] = {"label", "labels", "score"};
constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
    {"sentence1", "sentence2"}, {"text_a", "text_b"},       {"premise", "hypothesis"},
    {"question", "sentence"},   {"question1", "question2"}, {"query", "passage"}};
constexpr std::string_view kTexts[] = {"text", "sentence"};
constexpr std::string_view kRowNumbers[] = {"index", "idx", "id", "guid"};

bool has(Names names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

std::string list_of(Names names) {
  constexpr size_t kMost = 20;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) list += (i == 0 ? "" : ", ") + shown_name(names[i]);
  return names.size() > kMost ? list + ", ..." : list;
}

void require_column(Names names, const std::string& name, const std::string& where) {
  if (name.empty() || has(names, name)) return;
  throw data_error(fmt::format("{}: no column {}", where, shown_name(name)), "the columns are " + list_of(names));
}

std::string find_label(Names names) {
  for (const std::string_view label : kLabels) {
    if (has(names, label)) return std::string(label);
  }
  return "";
}

void find_texts(Names names, Columns& columns) {
  const auto is_taken = [&](std::string_view name) { return name == columns.label || name == columns.group; };
  for (const auto& [first, second] : kPairs) {
    if (!has(names, first) || !has(names, second) || is_taken(first) || is_taken(second)) continue;
    columns.first = first;
    columns.second = second;
    return;
  }
  for (const std::string_view text : kTexts) {
    if (!has(names, text) || is_taken(text)) continue;
    columns.first = text;
    return;
  }
  for (const std::string& name : names) {
    if (is_taken(name) || std::ranges::find(kRowNumbers, name) != std::end(kRowNumbers)) continue;
    (columns.first.empty() ? columns.first : columns.second) = name;
    if (!columns.second.empty()) return;
  }
}

void check_choice(const ColumnChoice& choice) {
  if (choice.first.empty() && !choice.second.empty()) {
    throw usage_error("a second text column without a first one", "name both, or none of them");
  }
  const std::string* const named[] = {&choice.first, &choice.second, &choice.label};
  for (size_t i = 0; i < std::size(named); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (named[i]->empty() || *named[i] != *named[j]) continue;
      throw usage_error(fmt::format("column {} is named twice", shown_name(*named[i])), "name another one");
    }
  }
}

}  // namespace

Columns choose_columns(std::span<const std::string> names, const ColumnChoice& choice, bool require_label,
                       const std::string& where) {
  check_choice(choice);
  for (const std::string& name : {choice.first, choice.second, choice.label, choice.group}) {
    require_column(names, name, where);
  }
  Columns columns{choice.first, choice.second, choice.label, choice.group};
  if (columns.label.empty()) {
    columns.label = find_label(names);
    // A column with the name of a label is used as text or group if the user says so.
    if (columns.label == choice.first || columns.label == choice.second || columns.label == choice.group) {
      columns.label.clear();
    }
  }
  if (columns.label.empty() && require_label) {
    throw data_error(where + ": no label column", "name it; the columns are " + list_of(names));
  }
  if (columns.first.empty()) find_texts(names, columns);
  if (columns.first.empty()) {
    throw data_error(where + ": no text column", "name it; the columns are " + list_of(names));
  }
  return columns;
}

}  // namespace gradmill
