// SPDX-License-Identifier: Apache-2.0
// The functions, filters, tests and methods that templates may use.
#pragma once

#include <string_view>
#include <vector>

#include "data/chat/jinja/callable.h"
#include "data/chat/jinja/value.h"

namespace gradmill::jinja {

using BuiltinTable = std::vector<Builtin>;

// Null where there is none of this name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_in(const BuiltinTable& table, std::string_view name);

// Filters over texts and numbers, and over lists and dicts.
const BuiltinTable& scalar_filters();
const BuiltinTable& sequence_filters();
const BuiltinTable& text_methods();
// raise_exception, strftime_now, namespace, range, dict.
const BuiltinTable& global_functions();

// value[key] as templates have it: an item, else a method or attribute; undefined where there is neither.
Value item_of(const Value& object, const Value& key, Work& work);
// value.name: a method, else an item. Python has methods that templates may not call: these are found, too, and refuse
// when they are called.
Value attribute_of(const Value& object, std::string_view name, Work& work);
// What selectattr and others take as an attribute: names and numbers with points between them.
Value path_of(const Value& object, const Value& path, Work& work);

}  // namespace gradmill::jinja
