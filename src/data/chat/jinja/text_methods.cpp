// SPDX-License-Identifier: Apache-2.0
// Methods of texts.
#include <algorithm>

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/python.h"
#include "data/chat/jinja/renderer.h"
#include "data/chat/jinja/text.h"
#include "data/chat/jinja/text_format.h"

namespace gradmill::jinja {
namespace {

size_t count_in(std::string_view text, std::string_view part) {
  if (part.empty()) return text_length(text) + 1;
  size_t count = 0;
  for (size_t i = 0; (i = text.find(part, i)) != std::string_view::npos; i += part.size()) ++count;
  return count;
}

template <Side side>
Value strip_method(Renderer& renderer, const Value& self, const Arguments& arguments) {
  std::optional<std::string_view> chars;
  const Value* given = arguments.find(0);
  if (given != nullptr && !given->is_none()) chars = as_text(*given, "what strip takes away");
  spend_search(self.text(), chars.value_or(""), renderer.work());
  return strip(self.text(), side, chars);
}

Value list_of(const std::vector<std::string_view>& parts, Work& work) {
  work.spend_values(parts.size() * 2);
  return make_list({parts.begin(), parts.end()}, work.limits());
}

template <Side from>
Value split_method(Renderer& renderer, const Value& self, const Arguments& arguments) {
  std::optional<std::string_view> separator;
  const Value* given = arguments.find(0);
  if (given != nullptr && !given->is_none()) separator = as_text(*given, "a separator");
  if (separator && separator->empty()) throw Fault("empty separator");
  const int64_t limit = as_integer(arguments.value(1, -1), "the number of splits");
  spend_search(self.text(), separator.value_or(""), renderer.work());
  renderer.work().spend(separator ? count_in(self.text(), *separator) : self.text().size() / 2);
  return list_of(split(self.text(), separator, limit, from), renderer.work());
}

Value split_lines_method(Renderer& renderer, const Value& self, const Arguments&) {
  renderer.work().spend(self.text().size() / 2);
  return list_of(split_lines(self.text()), renderer.work());
}

template <std::string (*convert)(std::string_view)>
Value convert_method(Renderer& renderer, const Value& self, const Arguments&) {
  renderer.work().spend_bytes(self.text().size() * 4);
  return convert(self.text());
}

template <bool (*check)(std::string_view)>
Value check_method(Renderer& renderer, const Value& self, const Arguments&) {
  renderer.work().spend_bytes(self.text().size());
  return check(self.text());
}

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}
bool all_spaces(std::string_view text) { return !text.empty() && strip(text, Side::left).empty(); }

template <bool start>
Value affix_method(Renderer& renderer, const Value& self, const Arguments& arguments) {
  const Value& wanted = arguments.required(0);
  const auto matches = [&](const Value& affix) {
    const std::string& text = as_text(affix, "a prefix or suffix");
    renderer.work().spend_bytes(text.size());
    return start ? self.text().starts_with(text) : self.text().ends_with(text);
  };
  if (!wanted.is_list() || !wanted.list().tuple) return matches(wanted);
  for (const Value& affix : wanted.items()) {
    if (matches(affix)) return true;
  }
  return false;
}

template <bool start>
Value remove_affix(Renderer&, const Value& self, const Arguments& arguments) {
  const std::string& affix = as_text(arguments.required(0), "a prefix or suffix");
  std::string_view text = self.text();
  if (start && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (!start && text.ends_with(affix)) text.remove_suffix(affix.size());
  return text;
}

Value replace_method(Renderer& renderer, const Value& self, const Arguments& arguments) {
  const std::string& from = as_text(arguments.required(0), "what is replaced");
  const std::string& to = as_text(arguments.required(1), "the replacement");
  const int64_t count = as_integer(arguments.value(2, -1), "the number of replacements");
  spend_search(self.text(), from, renderer.work());
  const size_t found = count_in(self.text(), from);
  const size_t times = count < 0 ? found : std::min(found, static_cast<size_t>(count));
  size_t growth = 0;
  if (__builtin_mul_overflow(times, to.size(), &growth)) throw Fault("a value that is too large");
  renderer.work().spend_bytes(growth);
  renderer.work().spend_bytes(self.text().size() * 2);
  return replace(self.text(), from, to, count);
}

Value count_method(Renderer& renderer, const Value& self, const Arguments& arguments) {
  const std::string& part = as_text(arguments.required(0), "what is counted");
  spend_search(self.text(), part, renderer.work());
  return static_cast<int64_t>(count_in(self.text(), part));
}

template <bool first>
Value find_method(Renderer& renderer, const Value& self, const Arguments& arguments) {
  const std::string& part = as_text(arguments.required(0), "what is looked for");
  spend_search(self.text(), part, renderer.work());
  const size_t place = first ? self.text().find(part) : self.text().rfind(part);
  if (place == std::string::npos) return -1;
  return static_cast<int64_t>(text_length(std::string_view(self.text()).substr(0, place)));
}

Value index_method(Renderer& renderer, const Value& self, const Arguments& arguments) {
  Value place = find_method<true>(renderer, self, arguments);
  if (place.integer() < 0) throw Fault("substring not found");
  return place;
}

Value join_method(Renderer& renderer, const Value& self, const Arguments& arguments) {
  std::string text;
  bool first = true;
  for (const Value& item : iterate(arguments.required(0), renderer.work())) {
    const std::string& part = as_text(item, "what join puts together");
    renderer.work().spend_bytes(part.size() + self.text().size());
    if (!first) text += self.text();
    text += part;
    first = false;
  }
  return text;
}

template <bool first>
Value partition_method(Renderer& renderer, const Value& self, const Arguments& arguments) {
  const std::string& separator = as_text(arguments.required(0), "a separator");
  if (separator.empty()) throw Fault("empty separator");
  spend_search(self.text(), separator, renderer.work());
  const std::string_view text = self.text();
  const size_t place = first ? text.find(separator) : text.rfind(separator);
  std::vector<Value> parts;
  if (place != std::string_view::npos)
    parts = {text.substr(0, place), separator, text.substr(place + separator.size())};
  else if (first)
    parts = {text, "", ""};
  else
    parts = {"", "", text};
  return make_list(std::move(parts), renderer.work().limits(), true);
}

Value format_method(Renderer& renderer, const Value& self, const Arguments& arguments) {
  return format_braces(self.text(), arguments, renderer.work());
}

}  // namespace

const BuiltinTable& text_methods() {
  static const BuiltinTable table = {
      {"strip", strip_method<Side::both>, {"chars"}},
      {"lstrip", strip_method<Side::left>, {"chars"}},
      {"rstrip", strip_method<Side::right>, {"chars"}},
      {"split", split_method<Side::left>, {"sep", "maxsplit"}},
      {"rsplit", split_method<Side::right>, {"sep", "maxsplit"}},
      {"splitlines", split_lines_method},
      {"partition", partition_method<true>, {"sep"}},
      {"rpartition", partition_method<false>, {"sep"}},
      {"startswith", affix_method<true>, {"prefix"}},
      {"endswith", affix_method<false>, {"suffix"}},
      {"removeprefix", remove_affix<true>, {"prefix"}},
      {"removesuffix", remove_affix<false>, {"suffix"}},
      {"replace", replace_method, {"old", "new", "count"}},
      {"upper", convert_method<upper>},
      {"lower", convert_method<lower>},
      {"title", convert_method<title>},
      {"capitalize", convert_method<capitalize>},
      {"isupper", check_method<is_upper>},
      {"islower", check_method<is_lower>},
      {"isdigit", check_method<all_digits>},
      {"isspace", check_method<all_spaces>},
      {"count", count_method, {"sub"}},
      {"find", find_method<true>, {"sub"}},
      {"rfind", find_method<false>, {"sub"}},
      {"index", index_method, {"sub"}},
      {"join", join_method, {"iterable"}},
      {"format", format_method, {}, true},
  };
  return table;
}

}  // namespace gradmill::jinja
