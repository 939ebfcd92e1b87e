// SPDX-License-Identifier: Apache-2.0
// A setting: where its value is stored, what it means, and which values are allowed. A section lists its settings
// once, in `visit(FieldList&)`; reading, checking, help, documents and comparison all work on that list.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace gradmill {

// The allowed values of a setting. Numbers: low to high, both included. Text: one of `names`, or anything if there are
// none.
struct Constraint {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::vector<std::string> names;
  std::string unset;  // what 0 or the empty text means; if not empty, that value is allowed too
  // A word for a value outside the range; empty if there is none. For whole numbers only.
  std::string word = {};
  int64_t word_value = 0;

  Constraint or_unset(std::string meaning) && {
    unset = std::move(meaning);
    return std::move(*this);
  }
  Constraint or_word(std::string name, int64_t value) && {
    word = std::move(name);
    word_value = value;
    return std::move(*this);
  }
};

inline Constraint anything() { return {}; }
inline Constraint at_least(double low) { return {.low = low}; }
inline Constraint between(double low, double high) { return {.low = low, .high = high}; }
inline Constraint one_of(std::vector<std::string> names) { return {.names = std::move(names)}; }

using FieldPointer = std::variant<int64_t*, double*, bool*, std::string*>;

struct Field {
  std::string section, key;
  FieldPointer value;
  std::string help;  // one line, with the unit
  Constraint constraint;

  std::string name() const { return section + "." + key; }
};

struct Section {
  std::string name, help;
};

class FieldList {
 public:
  template <class Struct>
  void section(std::string name, std::string help, Struct& values) {
    sections_.push_back({std::move(name), std::move(help)});
    values.visit(*this);
  }
  // Adds a setting to the section opened last.
  void operator()(std::string key, FieldPointer value, std::string help, Constraint constraint) {
    fields_.push_back({sections_.back().name, std::move(key), value, std::move(help), std::move(constraint)});
  }

  const std::vector<Section>& sections() const { return sections_; }
  const std::vector<Field>& fields() const { return fields_; }
  // Null if there is none.
  const Section* find_section(std::string_view name) const;
  const Field* find(std::string_view section, std::string_view key) const;
  const Field* find(std::string_view name) const;  // "section.key"

 private:
  std::vector<Section> sections_;
  std::vector<Field> fields_;
};

// "a whole number between 1 and 4096 (0: off)"
std::string allowed_values(const Field& field);
// The value as text that set_value reads back to the same bits.
std::string value_text(const Field& field);
// Reads the text, checks it and sets the field. Returns "" on success; otherwise what is wrong, and changes nothing.
// Quoted text is always text: only text settings accept it.
std::string set_value(const Field& field, std::string_view text, bool quoted = false);

}  // namespace gradmill
