// SPDX-License-Identifier: Apache-2.0
// Reading, checking and writing the value of one setting.
#include "config/field.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "config/suggest.h"

namespace gradmill {
namespace {

std::string range_text(const Constraint& constraint) {
  if (std::isfinite(constraint.high)) return fmt::format(" between {} and {}", constraint.low, constraint.high);
  if (std::isfinite(constraint.low)) return fmt::format(", {} or more", constraint.low);
  return "";
}

bool in_range(const Constraint& constraint, double value) {
  return (value >= constraint.low && value <= constraint.high) || (value == 0 && !constraint.unset.empty());
}

template <class Number>
std::optional<Number> whole_text_as(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// YAML 1.1's words for a boolean.
std::optional<bool> bool_from(std::string_view text) {
  const std::string word = lower_case(text);
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

// Length of the UTF-8 sequence at the start of `text`; 0 if it is invalid or a control character.
size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7f) return 0;
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (length > text.size()) return 0;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return std::all_of(text.begin() + 1, text.begin() + static_cast<ptrdiff_t>(length), continues) ? length : 0;
}

// Other texts would not survive being written to YAML and read back.
bool is_clean(std::string_view text) {
  while (!text.empty()) {
    const size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool set_number(const Field& field, int64_t* target, std::string_view text) {
  if (!field.constraint.word.empty() && text == field.constraint.word) {
    *target = field.constraint.word_value;
    return true;
  }
  const auto number = whole_text_as<int64_t>(text);
  if (!number || !in_range(field.constraint, static_cast<double>(*number))) return false;
  *target = *number;
  return true;
}

bool set_number(const Field& field, double* target, std::string_view text) {
  const auto number = whole_text_as<double>(text);
  if (!number || !std::isfinite(*number) || !in_range(field.constraint, *number)) return false;
  *target = *number;
  return true;
}

bool set_text(const Field& field, std::string* target, std::string_view text) {
  const std::vector<std::string>& names = field.constraint.names;
  const bool good = text.empty()    ? !field.constraint.unset.empty()
                    : names.empty() ? is_clean(text)
                                    : std::find(names.begin(), names.end(), text) != names.end();
  if (good) *target = text;
  return good;
}

bool set_bool(bool* target, std::string_view text) {
  const auto value = bool_from(text);
  if (value) *target = *value;
  return value.has_value();
}

}  // namespace

const Section* FieldList::find_section(std::string_view name) const {
  const auto found = std::find_if(sections_.begin(), sections_.end(), [&](const Section& s) { return s.name == name; });
  return found == sections_.end() ? nullptr : &*found;
}

const Field* FieldList::find(std::string_view section, std::string_view key) const {
  const auto matches = [&](const Field& field) { return field.section == section && field.key == key; };
  const auto found = std::find_if(fields_.begin(), fields_.end(), matches);
  return found == fields_.end() ? nullptr : &*found;
}

const Field* FieldList::find(std::string_view name) const {
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? nullptr : find(name.substr(0, dot), name.substr(dot + 1));
}

std::string allowed_values(const Field& field) {
  const Constraint& constraint = field.constraint;
  const std::string kinds[] = {"a whole number", "a number", "true or false", "printable text"};
  std::string allowed = constraint.names.empty() ? kinds[field.value.index()] + range_text(constraint)
                                                 : fmt::format("one of {}", fmt::join(constraint.names, ", "));
  if (!constraint.word.empty()) allowed = fmt::format("{} or {}", constraint.word, allowed);
  if (constraint.unset.empty()) return allowed;
  const bool is_text = std::holds_alternative<std::string*>(field.value);
  return fmt::format("{} ({}: {})", allowed, is_text ? "\"\"" : "0", constraint.unset);
}

// fmt writes the shortest digits that read back to the same double.
std::string value_text(const Field& field) {
  const Constraint& constraint = field.constraint;
  const auto* const* whole = std::get_if<int64_t*>(&field.value);
  if (whole != nullptr && !constraint.word.empty() && **whole == constraint.word_value) return constraint.word;
  return std::visit([](const auto* value) { return fmt::format("{}", *value); }, field.value);
}

std::string set_value(const Field& field, std::string_view text, bool quoted) {
  bool good = false;
  if (auto* const* target = std::get_if<std::string*>(&field.value)) {
    good = set_text(field, *target, text);
  } else if (!quoted) {
    if (auto* const* whole = std::get_if<int64_t*>(&field.value)) good = set_number(field, *whole, text);
    if (auto* const* real = std::get_if<double*>(&field.value)) good = set_number(field, *real, text);
    if (auto* const* flag = std::get_if<bool*>(&field.value)) good = set_bool(*flag, text);
  }
  if (good) return "";
  return fmt::format("{} is {}; it must be {}{}", field.name(), quoted_text(text), allowed_values(field),
                     did_you_mean(text, field.constraint.names));
}

}  // namespace gradmill
