// SPDX-License-Identifier: Apache-2.0
// Python's two ways to format values into a text, as far as templates use them.
#pragma once

#include <string>
#include <string_view>

#include "data/chat/jinja/callable.h"

namespace gradmill::jinja {

// format % values: %s %r %d %i %f, with an optional precision after a point, and %%. Throws a Fault for other formats.
std::string format_percent(std::string_view format, const std::vector<std::optional<Value>>& values, Work& work);

// format.format(...): {} {0} {name}, with :d, :s, :.2f and similar. Throws a Fault for other formats.
std::string format_braces(std::string_view format, const Arguments& arguments, Work& work);

}  // namespace gradmill::jinja
