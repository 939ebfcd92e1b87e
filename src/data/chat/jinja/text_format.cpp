// SPDX-License-Identifier: Apache-2.0
#include "data/chat/jinja/text_format.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "data/chat/jinja/python.h"

namespace gradmill::jinja {
namespace {

constexpr int kMaxPrecision = 100;

std::optional<int> read_index(std::string_view text) {
  int index = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), index);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || index < 0) return std::nullopt;
  return index;
}

// `precision` digits after the decimal point; six by default.
std::string fixed(const Value& value, std::optional<int> precision) {
  if (!value.is_number()) throw Fault(fmt::format("a number is needed, not {}", value.type_name()));
  if (precision.value_or(6) > kMaxPrecision) throw Fault(fmt::format("a precision over {}", kMaxPrecision));
  return fmt::format("{:.{}f}", value.number(), precision.value_or(6));
}

std::string integer_text(const Value& value) {
  if (!value.is_number()) throw Fault(fmt::format("a number is needed, not {}", value.type_name()));
  if (!value.is_float()) return fmt::format("{}", value.integer());
  if (!std::isfinite(value.number())) throw Fault("a number that is not finite as an integer");
  return fmt::format("{:.0f}", std::trunc(value.number()));
}

// Reads "" or ".2".
std::optional<int> read_precision(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto precision = text.front() == '.' ? read_index(text.substr(1)) : std::nullopt;
  if (!precision) throw Fault(fmt::format("the format '{}' is not supported", text.substr(0, 40)));
  return precision;
}

std::string with_spec(const Value& value, std::string_view spec, Work& work) {
  if (spec.empty() || (spec == "s" && value.is_text())) return str(value, work);
  if (spec == "d" && !value.is_float()) return integer_text(value);
  if (spec.ends_with('f')) return fixed(value, read_precision(spec.substr(0, spec.size() - 1)));
  throw Fault(fmt::format("the format '{}' is not supported", spec.substr(0, 40)));
}

const Value& field_value(std::string_view field, const Arguments& arguments, size_t& next) {
  const auto index = field.empty() ? std::optional<int>(static_cast<int>(next++)) : read_index(field);
  if (index) return arguments.required(static_cast<size_t>(*index));
  for (const auto& [name, value] : arguments.named) {
    if (name == field) return value;
  }
  throw Fault(fmt::format("format has no value for '{}'", field.substr(0, 40)));
}

}  // namespace

std::string format_percent(std::string_view format, const std::vector<std::optional<Value>>& values, Work& work) {
  std::string text;
  size_t next = 0;
  work.spend(format.size());
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      text += format[i];
      continue;
    }
    const size_t kind = format.find_first_not_of(".0123456789", i + 1);
    if (kind == std::string_view::npos) throw Fault("incomplete format");
    const auto precision = read_precision(format.substr(i + 1, kind - i - 1));
    i = kind;
    if (format[kind] == '%') {
      text += '%';
      continue;
    }
    if (next == values.size()) throw Fault("not enough arguments for format string");
    const Value& value = *values[next++];
    if (format[kind] == 's' && !precision)
      text += str(value, work);
    else if (format[kind] == 'r' && !precision)
      text += repr(value, work);
    else if ((format[kind] == 'd' || format[kind] == 'i') && !precision)
      text += integer_text(value);
    else if (format[kind] == 'f')
      text += fixed(value, precision);
    else
      throw Fault("a format knows %s, %r, %d, %i, %f and %%, but no others");
  }
  if (next < values.size()) throw Fault("not all arguments converted during string formatting");
  return text;
}

std::string format_braces(std::string_view format, const Arguments& arguments, Work& work) {
  std::string text;
  size_t next = 0;
  work.spend(format.size());
  for (size_t i = 0; i < format.size(); ++i) {
    const char letter = format[i];
    const bool doubled = i + 1 < format.size() && format[i + 1] == letter;
    if (letter != '{' && letter != '}') {
      text += letter;
    } else if (doubled) {
      text += letter;
      ++i;
    } else {
      const size_t end = letter == '{' ? format.find('}', i) : std::string_view::npos;
      if (end == std::string_view::npos) throw Fault("a single '{' or '}' in a format");
      const std::string_view field = format.substr(i + 1, end - i - 1);
      const size_t colon = std::min(field.find(':'), field.size());
      const std::string_view spec = colon < field.size() ? field.substr(colon + 1) : std::string_view();
      text += with_spec(field_value(field.substr(0, colon), arguments, next), spec, work);
      i = end;
    }
  }
  return text;
}

}  // namespace gradmill::jinja
