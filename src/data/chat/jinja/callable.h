// SPDX-License-Identifier: Apache-2.0
// Things that templates can call: functions of this library, methods of values, and macros.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/chat/jinja/value.h"

namespace gradmill::jinja {

class Renderer;

// The arguments of one call, filter or test.
struct Arguments {
  std::vector<std::optional<Value>> positional;
  std::vector<std::pair<std::string, Value>> named;

  // Null if the argument was not given.
  const Value* find(size_t position) const;
  Value value(size_t position, Value fallback) const;
  // Throws a Fault if the argument was not given.
  const Value& required(size_t position) const;
};

using Function = Value (*)(Renderer&, const Value& self, const Arguments&);

// A function, filter, test or method of this library. `self` is the value that a filter, test or method applies to.
struct Builtin {
  std::string_view name;
  Function function = nullptr;
  std::vector<std::string_view> parameters = {};
  bool variadic = false;  // accepts any arguments, without binding them
};

// Moves named arguments to their positions. Throws a Fault for too many arguments or unknown names.
Arguments bind(const Builtin& builtin, Arguments arguments);

}  // namespace gradmill::jinja
