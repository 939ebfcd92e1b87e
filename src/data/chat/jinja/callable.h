// SPDX-License-Identifier: Apache-2.0
// What templates call: functions of this library by name, methods of a value, and macros.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/chat/jinja/value.h"

namespace gradmill::jinja {

class Renderer;

// Of one call, filter or test.
struct Arguments {
  std::vector<std::optional<Value>> positional;
  std::vector<std::pair<std::string, Value>> named;

  // Nothing where it was not given.
  const Value* find(size_t position) const;
  Value value(size_t position, Value fallback) const;
  // Throws a Fault where it was not given.
  const Value& required(size_t position) const;
};

using Function = Value (*)(Renderer&, const Value& self, const Arguments&);

// A function, filter, test or method of this library. `self` is what a filter, test or method is applied to.
struct Builtin {
  std::string_view name;
  Function function = nullptr;
  std::vector<std::string_view> parameters = {};
  bool variadic = false;  // takes any arguments as they are
};

// Puts arguments given by name into their places. Throws a Fault for one too many, or for a name that it does not know.
Arguments bind(const Builtin& builtin, Arguments arguments);

}  // namespace gradmill::jinja
