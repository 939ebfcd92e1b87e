// SPDX-License-Identifier: Apache-2.0
#include "data/chat/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gradmill::jinja {

int depth_around(int depth, const Limits& limits) {
  if (depth >= limits.max_value_depth) {
    throw Fault(fmt::format("lists and dicts nested deeper than {}", limits.max_value_depth));
  }
  return depth + 1;
}

Value Value::undefined(std::string what) {
  Value value;
  value.store_ = Undefined{std::make_shared<const std::string>(std::move(what))};
  return value;
}

Value Value::markup(std::string text) {
  Value value(std::move(text));
  value.markup_ = true;
  return value;
}

std::string Value::undefined_name() const { return *std::get<Undefined>(store_).what; }

const std::vector<Value>& Value::items() const { return list().items; }

std::string_view Value::type_name() const {
  if (is_none()) return "None";
  if (is_undefined()) return "Undefined";
  if (is_bool()) return "bool";
  if (is_integer()) return "int";
  if (is_float()) return "float";
  if (is_text()) return "str";
  if (is_list()) return list().tuple ? "tuple" : "list";
  if (is_dict()) return "dict";
  if (as_namespace() != nullptr) return "Namespace";
  return as_loop() != nullptr ? "LoopContext" : "function";
}

int Value::depth() const {
  if (is_list()) return list().depth;
  if (is_dict()) return dict().depth;
  if (const LoopState* loop = as_loop()) return loop->items.depth() + 1;
  if (const Callable* callable = as_callable()) return callable->depth;
  return 0;
}

const Value* Dict::find_key(const Value& key) const {
  const auto found = index.find(hash_key(key));
  return found == index.end() ? nullptr : &entries[found->second].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = index.find(std::string("s").append(key));
  return found == index.end() ? nullptr : &entries[found->second].second;
}

void Dict::insert(const Value& key, Value value) {
  depth = std::max({depth, key.depth() + 1, value.depth() + 1});
  const auto [place, added] = index.try_emplace(hash_key(key), entries.size());
  if (added)
    entries.emplace_back(key, std::move(value));
  else
    entries[place->second].second = std::move(value);
}

Value make_list(std::vector<Value> items, const Limits& limits, bool tuple) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  const int depth = depth_around(deepest, limits);
  return std::make_shared<const List>(List{std::move(items), tuple, depth});
}

Value make_dict(Dict dict, const Limits& limits) {
  depth_around(dict.depth - 1, limits);
  return std::make_shared<const Dict>(std::move(dict));
}

size_t key_bytes(const Value& key) {
  if (key.is_text()) return key.text().size();
  if (!key.is_list()) return 0;
  size_t bytes = 0;
  for (const Value& item : key.items()) bytes += 16 + (item.is_text() ? item.text().size() : 0);
  return bytes;
}

std::string hash_key(const Value& value) {
  if (value.is_text()) return "s" + value.text();
  if (value.is_none()) return "n";
  if (value.is_float()) {
    // 1.0 and 1 are the same key.
    const double number = value.number();
    const bool whole = std::nearbyint(number) == number && std::abs(number) < 9e18;
    return whole ? fmt::format("i{}", static_cast<int64_t>(number)) : fmt::format("f{}", number);
  }
  if (value.is_number()) return fmt::format("i{}", value.integer());
  if (!value.is_list() || !value.list().tuple) throw Fault(fmt::format("unhashable type: '{}'", value.type_name()));
  if (value.depth() > 1)
    throw Fault("a tuple of tuples as a key is not supported");  // because its key could grow exponentially
  std::string key = "t";
  for (const Value& item : value.items()) {
    const std::string part = hash_key(item);
    key += fmt::format("{}:{}", part.size(), part);
  }
  return key;
}

}  // namespace gradmill::jinja
