// SPDX-License-Identifier: Apache-2.0
// The tests that can follow `is`.
#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/python.h"
#include "data/chat/jinja/renderer.h"
#include "data/chat/jinja/text.h"

namespace gradmill::jinja {
namespace {

using Check = bool (*)(const Value&);

template <Check check>
Value simple(Renderer&, const Value& value, const Arguments&) {
  return check(value);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_text(const Value& value) { return value.is_text(); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_integer(const Value& value) { return value.is_integer(); }
bool is_float(const Value& value) { return value.is_float(); }
bool is_boolean(const Value& value) { return value.is_bool(); }
bool is_true(const Value& value) { return value.is_bool() && value.boolean(); }
bool is_false(const Value& value) { return value.is_bool() && !value.boolean(); }
bool is_mapping(const Value& value) { return value.is_dict(); }
bool is_sequence(const Value& value) {
  return value.is_text() || value.is_list() || value.is_dict() || value.is_undefined();
}
bool is_callable(const Value& value) { return value.as_callable() != nullptr || value.is_undefined(); }
bool is_upper_text(const Value& value) { return is_upper(as_text(value, "what is tested")); }
bool is_lower_text(const Value& value) { return is_lower(as_text(value, "what is tested")); }

Value is_odd(Renderer&, const Value& value, const Arguments&) { return as_integer(value, "what is tested") % 2 != 0; }
Value is_even(Renderer&, const Value& value, const Arguments&) { return as_integer(value, "what is tested") % 2 == 0; }

Value is_divisible(Renderer& renderer, const Value& value, const Arguments& arguments) {
  return !truth(calculate(Arithmetic::modulo, value, arguments.required(0), renderer.work()));
}

template <bool expected>
Value equals(Renderer& renderer, const Value& value, const Arguments& arguments) {
  return equal(value, arguments.required(0), renderer.work()) == expected;
}

template <int sign, bool or_equal>
Value ordered(Renderer& renderer, const Value& value, const Arguments& arguments) {
  const int found = order(value, arguments.required(0), sign < 0 ? "<" : ">", renderer.work());
  return found * sign > 0 || (or_equal && found == 0);
}

Value is_in(Renderer& renderer, const Value& value, const Arguments& arguments) {
  return contains(arguments.required(0), value, renderer.work());
}

// Only for values whose identity equals their value: None, True, False and numbers.
Value is_same(Renderer& renderer, const Value& value, const Arguments& arguments) {
  const Value& other = arguments.required(0);
  return value.type_name() == other.type_name() && equal(value, other, renderer.work());
}

Value is_filter(Renderer&, const Value& value, const Arguments&) {
  return value.is_text() && find_filter(value.text()) != nullptr;
}
Value is_test(Renderer&, const Value& value, const Arguments&) {
  return value.is_text() && find_test(value.text()) != nullptr;
}

const BuiltinTable& test_table() {
  static const BuiltinTable table = {
      {"defined", simple<is_defined>},
      {"undefined", simple<is_undefined>},
      {"none", simple<is_none>},
      {"string", simple<is_text>},
      {"number", simple<is_number>},
      {"integer", simple<is_integer>},
      {"float", simple<is_float>},
      {"boolean", simple<is_boolean>},
      {"true", simple<is_true>},
      {"false", simple<is_false>},
      {"mapping", simple<is_mapping>},
      {"sequence", simple<is_sequence>},
      {"iterable", simple<is_sequence>},
      {"callable", simple<is_callable>},
      {"upper", simple<is_upper_text>},
      {"lower", simple<is_lower_text>},
      {"odd", is_odd},
      {"even", is_even},
      {"divisibleby", is_divisible, {"num"}},
      {"eq", equals<true>, {"other"}},
      {"equalto", equals<true>, {"other"}},
      {"==", equals<true>, {"other"}},
      {"ne", equals<false>, {"other"}},
      {"!=", equals<false>, {"other"}},
      {"lt", ordered<-1, false>, {"other"}},
      {"lessthan", ordered<-1, false>, {"other"}},
      {"<", ordered<-1, false>, {"other"}},
      {"le", ordered<-1, true>, {"other"}},
      {"<=", ordered<-1, true>, {"other"}},
      {"gt", ordered<1, false>, {"other"}},
      {"greaterthan", ordered<1, false>, {"other"}},
      {">", ordered<1, false>, {"other"}},
      {"ge", ordered<1, true>, {"other"}},
      {">=", ordered<1, true>, {"other"}},
      {"in", is_in, {"seq"}},
      {"sameas", is_same, {"other"}},
      {"filter", is_filter},
      {"test", is_test},
  };
  return table;
}

}  // namespace

const Builtin* find_in(const BuiltinTable& table, std::string_view name) {
  for (const Builtin& builtin : table) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

const Builtin* find_test(std::string_view name) { return find_in(test_table(), name); }

const Builtin* find_filter(std::string_view name) {
  const Builtin* found = find_in(scalar_filters(), name);
  return found != nullptr ? found : find_in(sequence_filters(), name);
}

}  // namespace gradmill::jinja
