// SPDX-License-Identifier: Apache-2.0
// Python's arithmetic with 64-bit integers. A result that does not fit is refused instead of wrapping.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "data/chat/jinja/python.h"
#include "data/chat/jinja/text_format.h"

namespace gradmill::jinja {
namespace {

std::string_view sign(Arithmetic operation) {
  switch (operation) {
    case Arithmetic::add:
      return "+";
    case Arithmetic::subtract:
      return "-";
    case Arithmetic::multiply:
      return "*";
    case Arithmetic::divide:
      return "/";
    case Arithmetic::floor_divide:
      return "//";
    case Arithmetic::modulo:
      return "%";
    case Arithmetic::power:
      return "**";
  }
  return "?";
}

void check(bool overflow) {
  if (overflow) throw Fault("an integer of more than 64 bits");
}

int64_t floor_divide(int64_t left, int64_t right) {
  check(left == std::numeric_limits<int64_t>::min() && right == -1);
  const int64_t quotient = left / right;
  return quotient - (left % right != 0 && (left < 0) != (right < 0));
}

int64_t modulo(int64_t left, int64_t right) {
  if (right == -1) return 0;
  const int64_t rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

double modulo(double left, double right) {
  const double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  return (rest < 0) != (right < 0) ? rest + right : rest;
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) check(__builtin_mul_overflow(result, base, &result));
    if (exponent > 1) check(__builtin_mul_overflow(base, base, &base));
  }
  return result;
}

Value calculate_integers(Arithmetic operation, int64_t left, int64_t right) {
  int64_t result = 0;
  switch (operation) {
    case Arithmetic::add:
      check(__builtin_add_overflow(left, right, &result));
      return result;
    case Arithmetic::subtract:
      check(__builtin_sub_overflow(left, right, &result));
      return result;
    case Arithmetic::multiply:
      check(__builtin_mul_overflow(left, right, &result));
      return result;
    case Arithmetic::power:
      if (right < 0) return std::pow(static_cast<double>(left), static_cast<double>(right));
      return power(left, right);
    default:
      break;
  }
  if (right == 0) throw Fault("division by zero");
  if (operation == Arithmetic::divide) return static_cast<double>(left) / static_cast<double>(right);
  return operation == Arithmetic::modulo ? modulo(left, right) : floor_divide(left, right);
}

Value calculate_floats(Arithmetic operation, double left, double right) {
  switch (operation) {
    case Arithmetic::add:
      return left + right;
    case Arithmetic::subtract:
      return left - right;
    case Arithmetic::multiply:
      return left * right;
    case Arithmetic::power:
      return std::pow(left, right);
    default:
      break;
  }
  if (right == 0) throw Fault("division by zero");
  if (operation == Arithmetic::divide) return left / right;
  return operation == Arithmetic::modulo ? modulo(left, right) : std::floor(left / right);
}

Value repeat(const Value& value, int64_t count, Work& work) {
  const size_t times = count > 0 ? static_cast<size_t>(count) : 0;
  const size_t size = value.is_text() ? value.text().size() : value.items().size();
  size_t total = 0;
  if (__builtin_mul_overflow(size, times, &total)) throw Fault("a value that is too large");
  if (value.is_text()) {
    work.spend_bytes(total);
    std::string text;
    text.reserve(total);
    if (size > 0) {
      for (size_t i = 0; i < times; ++i) text += value.text();
    }
    return text;
  }
  work.spend_values(total);
  std::vector<Value> items;
  items.reserve(total);
  if (size > 0) {
    for (size_t i = 0; i < times; ++i) items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return make_list(std::move(items), work.limits(), value.list().tuple);
}

Value join_lists(const Value& left, const Value& right, Work& work) {
  work.spend_values(left.items().size() + right.items().size());
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return make_list(std::move(items), work.limits(), left.list().tuple);
}

Value join_texts(const Value& left, const Value& right, Work& work) {
  work.spend_bytes(left.text().size() + right.text().size());
  if (!left.is_markup() && !right.is_markup()) return left.text() + right.text();
  return Value::markup(escape_markup(left, work).text() + escape_markup(right, work).text());
}

bool is_whole(const Value& value) { return value.is_integer() || value.is_bool(); }
bool is_sequence(const Value& value) { return value.is_text() || value.is_list(); }

}  // namespace

Value calculate(Arithmetic operation, const Value& left, const Value& right, Work& work) {
  if (is_whole(left) && is_whole(right)) return calculate_integers(operation, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return calculate_floats(operation, left.number(), right.number());
  if (operation == Arithmetic::add) {
    if (left.is_text() && right.is_text()) return join_texts(left, right, work);
    if (left.is_list() && right.is_list() && left.list().tuple == right.list().tuple) {
      return join_lists(left, right, work);
    }
  }
  if (operation == Arithmetic::multiply) {
    if (is_sequence(left) && is_whole(right)) return repeat(left, right.integer(), work);
    if (is_whole(left) && is_sequence(right)) return repeat(right, left.integer(), work);
  }
  if (operation == Arithmetic::modulo && left.is_text()) {
    const bool several = right.is_list() && right.list().tuple;
    std::vector<std::optional<Value>> values;
    if (several)
      values.assign(right.items().begin(), right.items().end());
    else
      values.emplace_back(right);
    work.spend_values(values.size());
    return format_percent(left.text(), values, work);
  }
  for (const Value* value : {&left, &right}) {
    if (value->is_undefined()) throw Fault(value->undefined_name());
  }
  throw Fault(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", sign(operation), left.type_name(),
                          right.type_name()));
}

Value escape_markup(const Value& text, Work& work) {
  if (text.is_markup()) return text;
  std::string result;
  work.spend_bytes(text.text().size() * 6);
  for (const char letter : text.text()) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '"':
        result += "&#34;";
        break;
      default:
        result += letter;
    }
  }
  return Value::markup(std::move(result));
}

Value negate(const Value& value) {
  if (is_whole(value)) return calculate_integers(Arithmetic::subtract, 0, value.integer());
  if (value.is_float()) return -value.number();
  if (value.is_undefined()) throw Fault(value.undefined_name());
  throw Fault(fmt::format("bad operand type for unary -: '{}'", value.type_name()));
}

}  // namespace gradmill::jinja
