// SPDX-License-Identifier: Apache-2.0
// Filters for lists, dicts and the characters of texts. Where Jinja returns a generator, these return a list.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/python.h"
#include "data/chat/jinja/renderer.h"
#include "data/chat/jinja/text.h"

namespace gradmill::jinja {
namespace {

Value as_list(std::vector<Value> items, Renderer& renderer) {
  return make_list(std::move(items), renderer.work().limits());
}

// The arguments after the first `count`, for a filter or test that is called by another one.
Arguments arguments_after(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(count), arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

const Value* named(const Arguments& arguments, std::string_view name) {
  for (const auto& [key, value] : arguments.named) {
    if (key == name) return &value;
  }
  return nullptr;
}

Value length_filter(Renderer& renderer, const Value& value, const Arguments&) {
  if (value.is_text()) renderer.work().spend_bytes(value.text().size());
  return static_cast<int64_t>(length(value));
}

Value list_filter(Renderer& renderer, const Value& value, const Arguments&) {
  return as_list(iterate(value, renderer.work()), renderer);
}

Value first_filter(Renderer& renderer, const Value& value, const Arguments&) {
  std::vector<Value> items = iterate(value, renderer.work());
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last_filter(Renderer& renderer, const Value& value, const Arguments&) {
  std::vector<Value> items = iterate(value, renderer.work());
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value reverse_filter(Renderer& renderer, const Value& value, const Arguments&) {
  std::vector<Value> items = iterate(value, renderer.work());
  std::ranges::reverse(items);
  if (!value.is_text()) return as_list(std::move(items), renderer);
  std::string text;
  for (const Value& letter : items) text += letter.text();
  return text;
}

Value join_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  const std::string separator = str(arguments.value(0, ""), renderer.work());
  const Value attribute = arguments.value(1, {});
  std::string text;
  bool first = true;
  for (const Value& item : iterate(value, renderer.work())) {
    renderer.work().spend_bytes(separator.size());
    if (!first) text += separator;
    text += str(attribute.is_none() ? item : path_of(item, attribute, renderer.work()), renderer.work());
    first = false;
  }
  return text;
}

Value map_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  if (!truth(value)) return as_list({}, renderer);  // also for None
  const Value* attribute = named(arguments, "attribute");
  const Value* fallback = named(arguments, "default");
  const Builtin* filter = nullptr;
  if (attribute == nullptr) {
    const std::string& name = as_text(arguments.required(0), "the name of a filter");
    filter = find_filter(name);
    if (filter == nullptr) throw Fault(fmt::format("no filter named '{}'", name));
  }
  std::vector<Value> items;
  for (const Value& item : iterate(value, renderer.work())) {
    if (filter != nullptr) {
      items.push_back(renderer.call(*filter, item, arguments_after(arguments, 1)));
      continue;
    }
    Value found = path_of(item, *attribute, renderer.work());
    items.push_back(found.is_undefined() && fallback != nullptr ? *fallback : std::move(found));
  }
  return as_list(std::move(items), renderer);
}

// select, reject, selectattr and rejectattr: keeps or drops items by a test, or by the truth, of the item or its
// attribute.
template <bool of_attribute, bool keep>
Value select_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  if (!truth(value)) return as_list({}, renderer);  // also for None
  const size_t skipped = of_attribute ? 1 : 0;
  const Value* attribute = of_attribute ? &arguments.required(0) : nullptr;
  const Builtin* test = nullptr;
  if (const Value* name = arguments.find(skipped)) {
    test = find_test(as_text(*name, "the name of a test"));
    if (test == nullptr) throw Fault(fmt::format("no test named '{}'", name->text()));
  }
  std::vector<Value> items;
  for (const Value& item : iterate(value, renderer.work())) {
    const Value tested = of_attribute ? path_of(item, *attribute, renderer.work()) : item;
    const Value result =
        test == nullptr ? tested : renderer.call(*test, tested, arguments_after(arguments, skipped + 1));
    if (truth(result) == keep) items.push_back(item);
  }
  return as_list(std::move(items), renderer);
}

// The key that sort, unique, min, max and dictsort compare.
Value sort_key(const Value& value, const Value& attribute, bool case_sensitive, Work& work) {
  Value key = attribute.is_none() ? value : path_of(value, attribute, work);
  if (case_sensitive || !key.is_text()) return key;
  work.spend_bytes(key.text().size() * 4);
  return lower(key.text());
}

std::vector<Value> sorted(std::vector<std::pair<Value, Value>> keyed, bool descending, Work& work) {
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    const int found = order(a.first, b.first, "<", work);
    return descending ? found > 0 : found < 0;
  });
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (auto& [key, value] : keyed) items.push_back(std::move(value));
  return items;
}

Value sort_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  const bool case_sensitive = truth(arguments.value(1, false));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : iterate(value, renderer.work())) {
    keyed.emplace_back(sort_key(item, arguments.value(2, {}), case_sensitive, renderer.work()), item);
  }
  return as_list(sorted(std::move(keyed), truth(arguments.value(0, false)), renderer.work()), renderer);
}

Value dictsort_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  if (!value.is_dict()) throw Fault(fmt::format("dictsort of a {}", value.type_name()));
  const bool case_sensitive = truth(arguments.value(0, false));
  const std::string by = as_text(arguments.value(1, "key"), "the argument 'by' of dictsort");
  if (by != "key" && by != "value") throw Fault("dictsort sorts by 'key' or 'value'");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, member] : value.dict().entries) {
    renderer.work().spend_values(4);
    const Value pair = make_list({key, member}, renderer.work().limits(), true);
    keyed.emplace_back(sort_key(by == "key" ? key : member, {}, case_sensitive, renderer.work()), pair);
  }
  return as_list(sorted(std::move(keyed), truth(arguments.value(2, false)), renderer.work()), renderer);
}

Value items_filter(Renderer& renderer, const Value& value, const Arguments&) {
  if (value.is_undefined()) return as_list({}, renderer);
  if (!value.is_dict()) throw Fault("Can only get item pairs from a mapping.");
  return renderer.call(attribute_of(value, "items", renderer.work()), {});
}

Value unique_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  std::unordered_set<std::string> seen;
  std::vector<Value> items;
  for (const Value& item : iterate(value, renderer.work())) {
    const bool case_sensitive = truth(arguments.value(0, false));
    const Value key = sort_key(item, arguments.value(1, {}), case_sensitive, renderer.work());
    renderer.work().spend_bytes(64 + key_bytes(key));
    if (seen.insert(hash_key(key)).second) items.push_back(item);
  }
  return as_list(std::move(items), renderer);
}

template <int sign>
Value extreme_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  const bool case_sensitive = truth(arguments.value(0, false));
  const Value attribute = arguments.value(1, {});
  Value best = Value::undefined("No aggregated item, sequence was empty."), best_key;
  for (const Value& item : iterate(value, renderer.work())) {
    Value key = sort_key(item, attribute, case_sensitive, renderer.work());
    if (!best.is_undefined() && order(key, best_key, "<", renderer.work()) * sign <= 0) continue;
    best = item;
    best_key = std::move(key);
  }
  return best;
}

Value sum_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  Value sum = arguments.value(1, 0);
  const Value attribute = arguments.value(0, {});
  for (const Value& item : iterate(value, renderer.work())) {
    const Value part = attribute.is_none() ? item : path_of(item, attribute, renderer.work());
    sum = calculate(Arithmetic::add, sum, part, renderer.work());
  }
  return sum;
}

Value attr_filter(Renderer& renderer, const Value& value, const Arguments& arguments) {
  return attribute_of(value, as_text(arguments.required(0), "the name"), renderer.work());
}

}  // namespace

const BuiltinTable& sequence_filters() {
  static const BuiltinTable table = {
      {"length", length_filter},
      {"count", length_filter},
      {"list", list_filter},
      {"first", first_filter},
      {"last", last_filter},
      {"reverse", reverse_filter},
      {"join", join_filter, {"d", "attribute"}},
      {"map", map_filter, {}, true},
      {"select", select_filter<false, true>, {}, true},
      {"reject", select_filter<false, false>, {}, true},
      {"selectattr", select_filter<true, true>, {}, true},
      {"rejectattr", select_filter<true, false>, {}, true},
      {"sort", sort_filter, {"reverse", "case_sensitive", "attribute"}},
      {"dictsort", dictsort_filter, {"case_sensitive", "by", "reverse"}},
      {"items", items_filter},
      {"unique", unique_filter, {"case_sensitive", "attribute"}},
      {"min", extreme_filter<-1>, {"case_sensitive", "attribute"}},
      {"max", extreme_filter<1>, {"case_sensitive", "attribute"}},
      {"sum", sum_filter, {"attribute", "start"}},
      {"attr", attr_filter, {"name"}},
  };
  return table;
}

}  // namespace gradmill::jinja
