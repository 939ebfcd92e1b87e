// SPDX-License-Identifier: Apache-2.0
// Python's operations on values: truth, text, equality, order, arithmetic, members. All throw a Fault where Python
// raises an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/jinja/value.h"

namespace gradmill::jinja {

bool truth(const Value& value);
// Python's str() and repr().
std::string str(const Value& value, Work& work);
std::string repr(const Value& value, Work& work);

bool equal(const Value& left, const Value& right, Work& work);
// Returns a negative number, 0 or a positive number. `sign` is the operator for the message if the values have no
// order.
int order(const Value& left, const Value& right, std::string_view sign, Work& work);
bool contains(const Value& container, const Value& item, Work& work);

// Escapes a text for HTML; markup stays unchanged.
Value escape_markup(const Value& text, Work& work);

enum class Arithmetic { add, subtract, multiply, divide, floor_divide, modulo, power };
Value calculate(Arithmetic operation, const Value& left, const Value& right, Work& work);
Value negate(const Value& value);

// A member of a dict, or null.
const Value* lookup(const Dict& dict, const Value& key, Work& work);
void put(Dict& dict, const Value& key, Value value, Work& work);

// The values that a loop iterates over: items, keys or characters; none if undefined.
std::vector<Value> iterate(const Value& value, Work& work);
size_t length(const Value& value);
// value[begin:end:step]; each of them may be None.
Value slice(const Value& value, const Value& begin, const Value& end, const Value& step, Work& work);
// Charges the cost of searching for `part` in `text`.
void spend_search(std::string_view text, std::string_view part, Work& work);
// Converts an argument of a method or filter that must be an integer.
int64_t as_integer(const Value& value, std::string_view what);
const std::string& as_text(const Value& value, std::string_view what);

}  // namespace gradmill::jinja
