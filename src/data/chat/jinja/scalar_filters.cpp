// SPDX-License-Identifier: Apache-2.0
// Filters for texts, numbers, and values of any type.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/json.h"
#include "data/chat/jinja/python.h"
#include "data/chat/jinja/renderer.h"
#include "data/chat/jinja/text.h"
#include "data/chat/jinja/text_format.h"

namespace gradmill::jinja {
namespace {

template <std::string (*convert)(std::string_view)>
Value convert_filter(Renderer& renderer, const Value& value, const Arguments&) {
  const std::string text = str(value, renderer.work());
  renderer.work().spend_bytes(text.size() * 4);
  return convert(text);
}

// Jinja's title filter: words begin only after spaces, hyphens and opening brackets.
std::string title_words(std::string_view text) {
  std::string result, word;
  const auto end_word = [&] {
    result += capitalize(word);
    word.clear();
  };
  for (const std::string_view letter : text_chars(text)) {
    const bool separates = letter.find_first_of("-({[<") == 0 || strip(letter, Side::left).empty();
    if (separates) {
      end_word();
      result += letter;
    } else {
      word += letter;
    }
  }
  end_word();
  return result;
}

// Applies a method of texts to the text of any value.
template <const std::string_view& method>
Value text_method(Renderer& renderer, const Value& value, const Arguments& arguments) {
  return find_in(text_methods(), method)->function(renderer, str(value, renderer.work()), arguments);
}
constexpr std::string_view kStrip = "strip";

Value replace_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  // Numbers are accepted in place of texts.
  Arguments texts = arguments;
  for (size_t i = 0; i < 2; ++i) texts.positional[i] = str(arguments.required(i), renderer.work());
  if (texts.find(2) != nullptr && texts.find(2)->is_none()) texts.positional[2].reset();
  return find_in(text_methods(), "replace")->function(renderer, str(value, renderer.work()), texts);
}

std::string indent_text(std::string_view text, std::string_view space, bool first, bool blank, Work& work) {
  std::string result;
  bool is_first = true;
  for (const std::string_view line : split(text, "\n", -1, Side::left)) {
    work.spend_bytes(line.size() + space.size());
    if (!is_first) result += '\n';
    const bool indented = is_first ? first : blank || !line.empty();
    if (indented) result += space;
    result += line;
    is_first = false;
  }
  return result;
}

Value indent_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  const Value width = arguments.value(0, 4);
  const int64_t spaces = width.is_text() ? 0 : as_integer(width, "the width");
  if (spaces > 1000) throw Fault("indent by more than 1000");
  const std::string space =
      width.is_text() ? width.text() : std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' ');
  const std::string text = str(value, renderer.work());
  renderer.work().spend(text.size());
  return indent_text(text, space, truth(arguments.value(1, false)), truth(arguments.value(2, false)), renderer.work());
}

Value escape_filter(Renderer& renderer, const Value& value, const Arguments&) {
  return escape_markup(value.is_text() ? value : Value(str(value, renderer.work())), renderer.work());
}

Value safe_filter(Renderer& renderer, const Value& value, const Arguments&) {
  return Value::markup(str(value, renderer.work()));
}

Value format_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  if (!arguments.named.empty()) throw Fault("format with named values is not supported");
  return format_percent(str(value, renderer.work()), arguments.positional, renderer.work());
}

Value string_filter(Renderer& renderer, const Value& value, const Arguments&) { return str(value, renderer.work()); }

JsonStyle json_style(const Arguments& arguments) {
  JsonStyle style;
  style.ascii = truth(arguments.value(0, false));
  const Value indent = arguments.value(1, {});
  if (indent.is_text()) {
    style.indent = indent.text();
  } else if (!indent.is_none()) {
    const int64_t spaces = as_integer(indent, "the indent");
    if (spaces > 1000) throw Fault("indent by more than 1000");
    style.indent = std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' ');
  }
  if (style.indent) style.item_separator = ",";
  const Value separators = arguments.value(2, {});
  if (!separators.is_none()) {
    if (!separators.is_list() || separators.items().size() != 2) throw Fault("separators must be two texts");
    style.item_separator = as_text(separators.items()[0], "a separator");
    style.key_separator = as_text(separators.items()[1], "a separator");
  }
  style.sort_keys = truth(arguments.value(3, false));
  return style;
}

// Like Python's json.dumps; Jinja's own filter would escape for HTML.
Value json_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  return to_json(value, json_style(arguments), renderer.work());
}

Value default_filter(Renderer&, const Value& value, const Arguments& arguments) {
  const bool replace_false = truth(arguments.value(1, false));
  const bool missing = value.is_undefined() || (replace_false && !truth(value));
  return missing ? arguments.value(0, "") : value;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip(text, Side::both);
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> parse_integer(std::string_view text, int base) {
  text = strip(text, Side::both);
  if (text.starts_with('+')) text.remove_prefix(1);
  if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) text.remove_prefix(2);
  int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> whole(double number) {
  if (!(std::abs(number) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(number);
}

Value int_filter(Renderer&, const Value& value, const Arguments& arguments) {
  const int64_t base = as_integer(arguments.value(1, 10), "the base");
  if (base < 2 || base > 36) throw Fault("a base must be from 2 to 36");
  std::optional<int64_t> number;
  if (value.is_float()) {
    number = whole(value.number());
  } else if (value.is_number()) {
    number = value.integer();
  } else if (value.is_text()) {
    number = parse_integer(value.text(), static_cast<int>(base));
    const auto real = number ? std::nullopt : parse_float(value.text());
    if (real) number = whole(*real);
  }
  return number ? Value(*number) : arguments.value(0, 0);
}

Value float_filter(Renderer&, const Value& value, const Arguments& arguments) {
  if (value.is_number()) return value.number();
  const auto number = value.is_text() ? parse_float(value.text()) : std::nullopt;
  return number ? Value(*number) : arguments.value(0, 0.0);
}

Value abs_filter(Renderer&, const Value& value, const Arguments&) {
  if (!value.is_number()) throw Fault(fmt::format("bad operand type for abs(): '{}'", value.type_name()));
  return value.number() < 0 ? negate(value) : negate(negate(value));
}

Value round_filter(Renderer&, const Value& value, const Arguments& arguments) {
  if (!value.is_number()) throw Fault(fmt::format("type {} cannot be rounded", value.type_name()));
  const int64_t digits = as_integer(arguments.value(0, 0), "the precision");
  const std::string method = as_text(arguments.value(1, "common"), "the method");
  if (digits < -15 || digits > 15) throw Fault("a precision must be from -15 to 15");
  if (!value.is_float() && method == "common" && digits >= 0) return value;
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (method == "ceil") return std::ceil(value.number() * scale) / scale;
  if (method == "floor") return std::floor(value.number() * scale) / scale;
  if (method != "common") throw Fault("method must be common, ceil or floor");
  if (digits < 0) return std::nearbyint(value.number() * scale) / scale;
  // Rounds through decimal text like Python: 2.675 is slightly smaller than written and becomes 2.67.
  const std::string text = fmt::format("{:.{}f}", value.number(), static_cast<int>(digits));
  return parse_float(text).value_or(value.number());
}

}  // namespace

const BuiltinTable& scalar_filters() {
  static const BuiltinTable table = {
      {"trim", text_method<kStrip>, {"chars"}},
      {"upper", convert_filter<upper>},
      {"lower", convert_filter<lower>},
      {"capitalize", convert_filter<capitalize>},
      {"title", convert_filter<title_words>},
      {"replace", replace_filter, {"old", "new", "count"}},
      {"indent", indent_filter, {"width", "first", "blank"}},
      {"escape", escape_filter},
      {"e", escape_filter},
      {"string", string_filter},
      {"format", format_filter, {}, true},
      {"safe", safe_filter},
      {"tojson", json_filter, {"ensure_ascii", "indent", "separators", "sort_keys"}},
      {"default", default_filter, {"default_value", "boolean"}},
      {"d", default_filter, {"default_value", "boolean"}},
      {"int", int_filter, {"default", "base"}},
      {"float", float_filter, {"default"}},
      {"abs", abs_filter},
      {"round", round_filter, {"precision", "method"}},
  };
  return table;
}

}  // namespace gradmill::jinja
