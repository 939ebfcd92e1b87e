// SPDX-License-Identifier: Apache-2.0
// Functions available in every chat template.
#include <fmt/format.h>

#include <array>

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/python.h"
#include "data/chat/jinja/renderer.h"

namespace gradmill::jinja {
namespace {

Value raise_exception(Renderer& renderer, const Value&, const Arguments& arguments) {
  throw Fault(fmt::format("the template refuses the conversation: {}", str(arguments.required(0), renderer.work())));
}

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {"January",   "February", "March",    "April",
                                                      "May",       "June",     "July",     "August",
                                                      "September", "October",  "November", "December"};

// Replaces the C library's strftime: the same in every locale, and without field widths.
std::string date_part(char kind, const std::tm& now) {
  const auto day = kDays[static_cast<size_t>(now.tm_wday) % 7];
  const auto month = kMonths[static_cast<size_t>(now.tm_mon) % 12];
  switch (kind) {
    case 'Y':
      return fmt::format("{}", now.tm_year + 1900);
    case 'y':
      return fmt::format("{:02}", now.tm_year % 100);
    case 'm':
      return fmt::format("{:02}", now.tm_mon + 1);
    case 'd':
      return fmt::format("{:02}", now.tm_mday);
    case 'e':
      return fmt::format("{:2}", now.tm_mday);
    case 'H':
      return fmt::format("{:02}", now.tm_hour);
    case 'I':
      return fmt::format("{:02}", (now.tm_hour + 11) % 12 + 1);
    case 'M':
      return fmt::format("{:02}", now.tm_min);
    case 'S':
      return fmt::format("{:02}", now.tm_sec);
    case 'j':
      return fmt::format("{:03}", now.tm_yday + 1);
    case 'p':
      return now.tm_hour < 12 ? "AM" : "PM";
    case 'A':
      return std::string(day);
    case 'a':
      return std::string(day.substr(0, 3));
    case 'B':
      return std::string(month);
    case 'b':
      return std::string(month.substr(0, 3));
    case 'F':
      return date_part('Y', now) + "-" + date_part('m', now) + "-" + date_part('d', now);
    case 'T':
      return date_part('H', now) + ":" + date_part('M', now) + ":" + date_part('S', now);
    case '%':
      return "%";
    default:
      throw Fault("strftime_now knows %Y %y %m %d %e %H %I %M %S %j %p %A %a %B %b %F %T and %%, but no others");
  }
}

Value strftime_now(Renderer& renderer, const Value&, const Arguments& arguments) {
  const std::string& format = as_text(arguments.required(0), "the format");
  renderer.work().spend(format.size());
  std::string text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '%' && i + 1 < format.size())
      text += date_part(format[++i], renderer.now());
    else
      text += format[i];
  }
  return text;
}

// Combines dicts given by position with members given by name.
Dict members(Renderer& renderer, const Arguments& arguments) {
  Dict dict;
  for (const auto& given : arguments.positional) {
    if (given->is_dict()) {
      for (const auto& [key, value] : given->dict().entries) put(dict, key, value, renderer.work());
      continue;
    }
    for (const Value& pair : iterate(*given, renderer.work())) {
      const std::vector<Value> parts = iterate(pair, renderer.work());
      if (parts.size() != 2) throw Fault("dict() takes pairs");
      put(dict, parts[0], parts[1], renderer.work());
    }
  }
  for (const auto& [name, value] : arguments.named) put(dict, name, value, renderer.work());
  return dict;
}

Value make_dict_function(Renderer& renderer, const Value&, const Arguments& arguments) {
  return make_dict(members(renderer, arguments), renderer.work().limits());
}

Value make_namespace_function(Renderer& renderer, const Value&, const Arguments& arguments) {
  Namespace* made = renderer.make_namespace();
  made->attributes = members(renderer, arguments);
  return made;
}

Value range_function(Renderer& renderer, const Value&, const Arguments& arguments) {
  const bool from_zero = arguments.find(1) == nullptr;
  const int64_t begin = from_zero ? 0 : as_integer(arguments.required(0), "a bound");
  const int64_t end = as_integer(arguments.required(from_zero ? 0 : 1), "a bound");
  const int64_t step = as_integer(arguments.value(2, 1), "the step");
  if (step == 0) throw Fault("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    renderer.work().spend(4);
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_list(std::move(items), renderer.work().limits());
}

}  // namespace

const BuiltinTable& global_functions() {
  static const BuiltinTable table = {
      {"raise_exception", raise_exception, {"message"}},    {"strftime_now", strftime_now, {"format"}},
      {"namespace", make_namespace_function, {}, true},     {"dict", make_dict_function, {}, true},
      {"range", range_function, {"start", "stop", "step"}},
  };
  return table;
}

}  // namespace gradmill::jinja
