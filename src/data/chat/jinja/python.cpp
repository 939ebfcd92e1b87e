// SPDX-License-Identifier: Apache-2.0
#include "data/chat/jinja/python.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/chat/jinja/callable.h"
#include "data/chat/jinja/text.h"

namespace gradmill::jinja {
namespace {

std::string list_text(const Value& value, Work& work) {
  const bool tuple = value.list().tuple;
  std::string text = tuple ? "(" : "[";
  for (const Value& item : value.items()) {
    if (text.size() > 1) text += ", ";
    text += repr(item, work);
  }
  if (tuple && value.items().size() == 1) text += ",";
  work.spend_bytes(text.size());
  return text += tuple ? ")" : "]";
}

std::string dict_text(const Dict& dict, Work& work) {
  std::string text = "{";
  for (const auto& [key, value] : dict.entries) {
    if (text.size() > 1) text += ", ";
    text.append(repr(key, work)).append(": ").append(repr(value, work));
  }
  work.spend_bytes(text.size());
  return text += "}";
}

bool equal_lists(const List& left, const List& right, Work& work) {
  return left.tuple == right.tuple && left.items.size() == right.items.size() &&
         std::equal(left.items.begin(), left.items.end(), right.items.begin(),
                    [&](const Value& a, const Value& b) { return equal(a, b, work); });
}

bool equal_dicts(const Dict& left, const Dict& right, Work& work) {
  if (left.entries.size() != right.entries.size()) return false;
  return std::ranges::all_of(left.entries, [&](const auto& entry) {
    const Value* other = lookup(right, entry.first, work);
    return other != nullptr && equal(entry.second, *other, work);
  });
}

template <typename T>
int three_way(const T& left, const T& right) {
  return left < right ? -1 : (right < left ? 1 : 0);
}

}  // namespace

bool truth(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_bool()) return value.boolean();
  if (value.is_integer()) return value.integer() != 0;
  if (value.is_float()) return value.number() != 0;
  if (value.is_text()) return !value.text().empty();
  if (value.is_list()) return !value.items().empty();
  return !value.is_dict() || !value.dict().entries.empty();
}

std::string str(const Value& value, Work& work) {
  if (!value.is_text()) return value.is_undefined() ? "" : repr(value, work);
  work.spend_bytes(value.text().size());
  return value.text();
}

std::string repr(const Value& value, Work& work) {
  work.spend(1);
  if (value.is_none()) return "None";
  if (value.is_undefined()) return "Undefined";
  if (value.is_bool()) return value.boolean() ? "True" : "False";
  if (value.is_integer()) return fmt::format("{}", value.integer());
  if (value.is_float()) return number_text(value.number());
  if (value.is_list()) return list_text(value, work);
  if (value.is_dict()) return dict_text(value.dict(), work);
  if (!value.is_text()) throw Fault(fmt::format("a {} has no text", value.type_name()));
  work.spend_bytes(value.text().size());
  return quoted(value.text());
}

bool equal(const Value& left, const Value& right, Work& work) {
  work.spend(1);
  if (left.is_number() && right.is_number()) {
    if (left.is_float() || right.is_float()) return left.number() == right.number();
    return left.integer() == right.integer();
  }
  if (left.is_text() && right.is_text()) {
    if (left.text().size() != right.text().size()) return false;
    work.spend_bytes(left.text().size());
    return left.text() == right.text();
  }
  if (left.is_list() && right.is_list()) return equal_lists(left.list(), right.list(), work);
  if (left.is_dict() && right.is_dict()) return equal_dicts(left.dict(), right.dict(), work);
  if (left.as_namespace() != nullptr) return left.as_namespace() == right.as_namespace();
  if (left.as_callable() != nullptr) return left.as_callable() == right.as_callable();
  return (left.is_none() && right.is_none()) || (left.is_undefined() && right.is_undefined());
}

int order(const Value& left, const Value& right, std::string_view sign, Work& work) {
  work.spend(1);
  if (left.is_number() && right.is_number()) {
    if (std::isnan(left.number()) || std::isnan(right.number())) throw Fault("a comparison with what is not a number");
    if (left.is_float() || right.is_float()) return three_way(left.number(), right.number());
    return three_way(left.integer(), right.integer());
  }
  if (left.is_text() && right.is_text()) {
    work.spend_bytes(std::min(left.text().size(), right.text().size()));
    return left.text().compare(right.text());  // UTF-8 has the same order as its code points
  }
  if (left.is_list() && right.is_list() && left.list().tuple == right.list().tuple) {
    const auto &a = left.items(), &b = right.items();
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!equal(a[i], b[i], work)) return order(a[i], b[i], sign, work);
    }
    return three_way(a.size(), b.size());
  }
  for (const Value* value : {&left, &right}) {
    if (value->is_undefined()) throw Fault(value->undefined_name());
  }
  throw Fault(
      fmt::format("'{}' not supported between instances of '{}' and '{}'", sign, left.type_name(), right.type_name()));
}

void spend_search(std::string_view text, std::string_view part, Work& work) {
  work.spend(1 + text.size() / 16 * (1 + part.size() / 16));
}

bool contains(const Value& container, const Value& item, Work& work) {
  if (container.is_text()) {
    const std::string& part = as_text(item, "what is looked for in a text");
    spend_search(container.text(), part, work);
    return container.text().find(part) != std::string::npos;
  }
  if (container.is_dict()) return lookup(container.dict(), item, work) != nullptr;
  if (container.is_undefined()) return false;
  if (!container.is_list()) throw Fault(fmt::format("argument of type '{}' is not iterable", container.type_name()));
  return std::ranges::any_of(container.items(), [&](const Value& other) { return equal(other, item, work); });
}

const Value* lookup(const Dict& dict, const Value& key, Work& work) {
  work.spend_bytes(key_bytes(key));
  return dict.find_key(key);
}

void put(Dict& dict, const Value& key, Value value, Work& work) {
  work.spend_bytes(160 + key_bytes(key));
  dict.insert(key, std::move(value));
}

std::vector<Value> iterate(const Value& value, Work& work) {
  if (value.is_undefined()) return {};
  if (value.is_list()) {
    work.spend_values(value.items().size());
    return value.items();
  }
  std::vector<Value> items;
  if (value.is_dict()) {
    work.spend_values(value.dict().entries.size());
    for (const auto& [key, member] : value.dict().entries) items.push_back(key);
  } else if (value.is_text()) {
    work.spend_values(value.text().size() * 2);
    for (const std::string_view letter : text_chars(value.text())) items.emplace_back(letter);
  } else {
    throw Fault(fmt::format("'{}' object is not iterable", value.type_name()));
  }
  return items;
}

size_t length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return text_length(value.text());
  if (value.is_list()) return value.items().size();
  if (value.is_dict()) return value.dict().entries.size();
  throw Fault(fmt::format("object of type '{}' has no len()", value.type_name()));
}

int64_t as_integer(const Value& value, std::string_view what) {
  if (value.is_integer() || value.is_bool()) return value.integer();
  throw Fault(fmt::format("{} must be an integer, not {}", what, value.type_name()));
}

const std::string& as_text(const Value& value, std::string_view what) {
  if (value.is_text()) return value.text();
  if (value.is_undefined()) throw Fault(value.undefined_name());
  throw Fault(fmt::format("{} must be a text, not {}", what, value.type_name()));
}

namespace {

// A bound of a slice, clamped like in Python; it may be negative or too large.
int64_t bound(const Value& value, int64_t fallback, int64_t size, int64_t lowest, int64_t highest) {
  if (value.is_none()) return fallback;
  int64_t place = as_integer(value, "a slice's bound");
  if (place < 0) place = place < -size ? lowest : place + size;
  return std::clamp(place, lowest, highest);
}

struct Places {
  int64_t from = 0, to = 0, step = 1;

  // Calls visit(index) for each index of the slice.
  template <typename Visit>
  void each(Visit&& visit) const {
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
      visit(static_cast<size_t>(i));
      if (step > 0 ? to - i <= step : to - i >= step) break;  // i + step could overflow
    }
  }
};

Places slice_places(size_t length, const Value& begin, const Value& end, const Value& step) {
  const int64_t stride = step.is_none() ? 1 : as_integer(step, "a slice's step");
  if (stride == 0) throw Fault("slice step cannot be zero");
  const auto size = static_cast<int64_t>(length);
  const bool forward = stride > 0;
  const int64_t low = forward ? 0 : -1, high = forward ? size : size - 1;
  return {bound(begin, forward ? low : high, size, low, high), bound(end, forward ? high : low, size, low, high),
          stride};
}

}  // namespace

Value slice(const Value& value, const Value& begin, const Value& end, const Value& step, Work& work) {
  if (value.is_list()) {
    work.spend_values(value.items().size());
    std::vector<Value> items;
    slice_places(value.items().size(), begin, end, step).each([&](size_t i) { items.push_back(value.items()[i]); });
    return make_list(std::move(items), work.limits(), value.list().tuple);
  }
  if (value.is_undefined()) throw Fault(value.undefined_name());
  if (!value.is_text()) throw Fault(fmt::format("'{}' object is not subscriptable", value.type_name()));
  work.spend_bytes(value.text().size());
  const Places places = slice_places(text_length(value.text()), begin, end, step);
  if (places.step == 1) {
    return text_between(value.text(), static_cast<size_t>(places.from), static_cast<size_t>(places.to));
  }
  work.spend(value.text().size());
  const auto chars = text_chars(value.text());
  std::string text;
  places.each([&](size_t i) { text += chars[i]; });
  return text;
}

}  // namespace gradmill::jinja
