// SPDX-License-Identifier: Apache-2.0
// What Python does with values: truth, text, equality, order, arithmetic, members. All throw a Fault for what Python
// refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/jinja/value.h"

namespace gradmill::jinja {

bool truth(const Value& value);
// str() and repr().
std::string str(const Value& value, Work& work);
std::string repr(const Value& value, Work& work);

bool equal(const Value& left, const Value& right, Work& work);
// Negative, 0, positive. `sign` is for the message where the two have no order.
int order(const Value& left, const Value& right, std::string_view sign, Work& work);
bool contains(const Value& container, const Value& item, Work& work);

// A text as HTML shows it; markup stays as it is.
Value escape_markup(const Value& text, Work& work);

enum class Arithmetic { add, subtract, multiply, divide, floor_divide, modulo, power };
Value calculate(Arithmetic operation, const Value& left, const Value& right, Work& work);
Value negate(const Value& value);

// A member of a dict, or nothing.
const Value* lookup(const Dict& dict, const Value& key, Work& work);
void put(Dict& dict, const Value& key, Value value, Work& work);

// What a loop over the value sees: items, keys, characters; nothing for an undefined one.
std::vector<Value> iterate(const Value& value, Work& work);
size_t length(const Value& value);
// value[begin:end:step], any of them None.
Value slice(const Value& value, const Value& begin, const Value& end, const Value& step, Work& work);
// Accounts for a search of `part` in `text`.
void spend_search(std::string_view text, std::string_view part, Work& work);
// An index that must be an integer, for arguments of methods and filters.
int64_t as_integer(const Value& value, std::string_view what);
const std::string& as_text(const Value& value, std::string_view what);

}  // namespace gradmill::jinja
