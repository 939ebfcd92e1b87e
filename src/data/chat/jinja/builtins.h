// SPDX-License-Identifier: Apache-2.0
// The functions, filters, tests and methods that templates can use.
#pragma once

#include <string_view>
#include <vector>

#include "data/chat/jinja/callable.h"
#include "data/chat/jinja/value.h"

namespace gradmill::jinja {

using BuiltinTable = std::vector<Builtin>;

// Null if there is no filter or test with this name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_in(const BuiltinTable& table, std::string_view name);

// Filters for texts and numbers, and filters for lists and dicts.
const BuiltinTable& scalar_filters();
const BuiltinTable& sequence_filters();
const BuiltinTable& text_methods();
// raise_exception, strftime_now, namespace, range and dict.
const BuiltinTable& global_functions();

// value[key] in templates: an item, otherwise a method or attribute; undefined if there is neither.
Value item_of(const Value& object, const Value& key, Work& work);
// value.name: a method, otherwise an item. Python methods that templates must not call are found as well, and refuse
// when called.
Value attribute_of(const Value& object, std::string_view name, Work& work);
// Follows an attribute path, as in selectattr: names and numbers separated by dots.
Value path_of(const Value& object, const Value& path, Work& work);

}  // namespace gradmill::jinja
