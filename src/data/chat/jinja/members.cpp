// SPDX-License-Identifier: Apache-2.0
// Items, attributes and methods of values.
#include <fmt/format.h>

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/python.h"
#include "data/chat/jinja/renderer.h"
#include "data/chat/jinja/text.h"

namespace gradmill::jinja {
namespace {

Value refuse_change(Renderer&, const Value& self, const Arguments&) {
  throw Fault(fmt::format("a template may not change a {}; use a namespace, or make a new value as in x + [y]",
                          self.type_name()));
}

Value pair_of(const Value& first, const Value& second, const Limits& limits) {
  return make_list({first, second}, limits, true);
}

Value dict_items(Renderer& renderer, const Value& self, const Arguments&) {
  const auto& entries = self.dict().entries;
  renderer.work().spend_values(entries.size() * 4);
  std::vector<Value> items;
  for (const auto& [key, value] : entries) items.push_back(pair_of(key, value, renderer.work().limits()));
  return make_list(std::move(items), renderer.work().limits());
}

Value dict_keys(Renderer& renderer, const Value& self, const Arguments&) {
  return make_list(iterate(self, renderer.work()), renderer.work().limits());
}

Value dict_values(Renderer& renderer, const Value& self, const Arguments&) {
  const auto& entries = self.dict().entries;
  renderer.work().spend_values(entries.size());
  std::vector<Value> items;
  for (const auto& [key, value] : entries) items.push_back(value);
  return make_list(std::move(items), renderer.work().limits());
}

Value dict_get(Renderer& renderer, const Value& self, const Arguments& arguments) {
  const Value* found = lookup(self.dict(), arguments.required(0), renderer.work());
  return found != nullptr ? *found : arguments.value(1, {});
}

Value copy(Renderer&, const Value& self, const Arguments&) { return self; }

Value list_count(Renderer& renderer, const Value& self, const Arguments& arguments) {
  int64_t count = 0;
  for (const Value& item : self.items()) count += equal(item, arguments.required(0), renderer.work());
  return count;
}

Value list_index(Renderer& renderer, const Value& self, const Arguments& arguments) {
  for (size_t i = 0; i < self.items().size(); ++i) {
    if (equal(self.items()[i], arguments.required(0), renderer.work())) return static_cast<int64_t>(i);
  }
  throw Fault("a value is not in the list");
}

const BuiltinTable& dict_methods() {
  static const BuiltinTable table = {
      {"items", dict_items},
      {"keys", dict_keys},
      {"values", dict_values},
      {"get", dict_get, {"key", "default"}},
      {"copy", copy},
      {"clear", refuse_change, {}, true},
      {"pop", refuse_change, {}, true},
      {"popitem", refuse_change, {}, true},
      {"setdefault", refuse_change, {}, true},
      {"update", refuse_change, {}, true},
  };
  return table;
}

const BuiltinTable& list_methods() {
  static const BuiltinTable table = {
      {"count", list_count, {"value"}},     {"index", list_index, {"value"}},   {"copy", copy},
      {"append", refuse_change, {}, true},  {"clear", refuse_change, {}, true}, {"extend", refuse_change, {}, true},
      {"insert", refuse_change, {}, true},  {"pop", refuse_change, {}, true},   {"remove", refuse_change, {}, true},
      {"reverse", refuse_change, {}, true}, {"sort", refuse_change, {}, true},
  };
  return table;
}

Value loop_cycle(Renderer&, const Value& self, const Arguments& arguments) {
  const size_t size = arguments.positional.size();
  if (size == 0) throw Fault("no items for cycling given");
  return *arguments.positional[self.as_loop()->index % size];
}

const BuiltinTable& loop_methods() {
  static const BuiltinTable table = {{"cycle", loop_cycle, {}, true}};
  return table;
}

Value loop_attribute(const LoopState& loop, std::string_view name) {
  const auto size = static_cast<int64_t>(loop.items.items().size());
  const auto index = static_cast<int64_t>(loop.index);
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == size;
  if (name == "length") return size;
  if (name == "depth") return 1;  // refers to recursive loops, which are not supported
  if (name == "depth0") return 0;
  if (name == "previtem" && index > 0) return loop.items.items()[loop.index - 1];
  if (name == "nextitem" && index + 1 < size) return loop.items.items()[loop.index + 1];
  return Value::undefined(fmt::format("the loop has no '{}' here", name));
}

const BuiltinTable* methods_of(const Value& object) {
  if (object.is_text()) return &text_methods();
  if (object.is_dict()) return &dict_methods();
  if (object.is_list()) return &list_methods();
  return object.as_loop() != nullptr ? &loop_methods() : nullptr;
}

Value no_member(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("'{} object' has no attribute '{}'", object.type_name(), name.substr(0, 80)));
}

// Nothing if the type has no such method.
std::optional<Value> method_of(const Value& object, std::string_view name, const Limits& limits) {
  const BuiltinTable* methods = methods_of(object);
  const Builtin* method = methods == nullptr ? nullptr : find_in(*methods, name);
  if (method == nullptr) return std::nullopt;
  const int depth = depth_around(object.depth(), limits);
  return std::make_shared<const Callable>(Callable{.builtin = method, .self = object, .depth = depth});
}

Value item_at(const Value& object, int64_t index, Work& work) {
  if (object.is_text()) work.spend_bytes(object.text().size());
  const auto size = static_cast<int64_t>(length(object));
  const int64_t place = index < 0 ? index + size : index;
  if (place < 0 || place >= size) {
    return Value::undefined(fmt::format("the {} has no item {}", object.type_name(), index));
  }
  if (object.is_list()) return object.items()[static_cast<size_t>(place)];
  return text_between(object.text(), static_cast<size_t>(place), static_cast<size_t>(place) + 1);
}

}  // namespace

Value attribute_of(const Value& object, std::string_view name, Work& work) {
  if (object.is_undefined()) throw Fault(object.undefined_name());
  if (const Namespace* found = object.as_namespace()) {
    const Value* value = found->attributes.find(name);
    return value != nullptr ? *value : no_member(object, name);
  }
  if (auto method = method_of(object, name, work.limits())) return *std::move(method);
  if (const LoopState* loop = object.as_loop()) return loop_attribute(*loop, name);
  const Value* found = object.is_dict() ? object.dict().find(name) : nullptr;
  return found != nullptr ? *found : no_member(object, name);
}

Value item_of(const Value& object, const Value& key, Work& work) {
  if (object.is_undefined()) throw Fault(object.undefined_name());
  if (object.is_dict()) {
    // A value that cannot be a key is never found.
    const bool hashable = !key.is_dict() && !key.is_undefined() && !(key.is_list() && !key.list().tuple);
    const Value* found = hashable ? lookup(object.dict(), key, work) : nullptr;
    if (found != nullptr) return *found;
  } else if ((key.is_integer() || key.is_bool()) && (object.is_list() || object.is_text())) {
    return item_at(object, key.integer(), work);
  }
  if (key.is_text()) {
    work.spend_bytes(key.text().size());
    return attribute_of(object, key.text(), work);
  }
  return no_member(object, str(key, work));
}

Value path_of(const Value& object, const Value& path, Work& work) {
  if (!path.is_text()) return item_of(object, path, work);
  Value value = object;
  for (const std::string_view part : split(path.text(), ".", -1, Side::left)) {
    const bool number = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
    value = item_of(value, number ? Value(std::stoi(std::string(part))) : Value(part), work);
  }
  return value;
}

}  // namespace gradmill::jinja
