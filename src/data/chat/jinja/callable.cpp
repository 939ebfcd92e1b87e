// SPDX-License-Identifier: Apache-2.0
#include "data/chat/jinja/callable.h"

#include <fmt/format.h>

#include <algorithm>

namespace gradmill::jinja {

const Value* Arguments::find(size_t position) const {
  return position < positional.size() && positional[position] ? &*positional[position] : nullptr;
}

Value Arguments::value(size_t position, Value fallback) const {
  const Value* given = find(position);
  return given == nullptr ? std::move(fallback) : *given;
}

const Value& Arguments::required(size_t position) const {
  const Value* given = find(position);
  if (given == nullptr) throw Fault(fmt::format("argument {} is missing", position + 1));
  return *given;
}

Arguments bind(const Builtin& builtin, Arguments arguments) {
  if (builtin.variadic) return arguments;
  const auto& parameters = builtin.parameters;
  if (arguments.positional.size() > parameters.size()) {
    throw Fault(fmt::format("{} takes at most {} arguments, not {}", builtin.name, parameters.size(),
                            arguments.positional.size()));
  }
  arguments.positional.resize(parameters.size());
  for (auto& [name, value] : arguments.named) {
    const auto place = static_cast<size_t>(std::ranges::find(parameters, name) - parameters.begin());
    if (place == parameters.size()) throw Fault(fmt::format("{} has no argument '{}'", builtin.name, name));
    if (arguments.positional[place]) throw Fault(fmt::format("{} got its argument '{}' twice", builtin.name, name));
    arguments.positional[place] = std::move(value);
  }
  arguments.named.clear();
  return arguments;
}

}  // namespace gradmill::jinja
