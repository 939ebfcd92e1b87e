// SPDX-License-Identifier: Apache-2.0
// Variables and names as they are declared in a kernel's text.
#pragma once

#include <string_view>
#include <vector>

#include "paper_gpu/ptx/module.h"
#include "paper_gpu/ptx/syntax.h"

namespace gradmill::paper::ptx {

// The type, name and size of a variable or parameter, after its space.
Variable read_variable(Cursor& cursor, std::string_view& name);
// Places a variable after those before it: returns where it begins, and moves `end`.
uint32_t place(uint32_t& end, const Variable& variable);
// With commas in between; `end` is taken, too.
std::vector<std::string_view> names_up_to(Cursor& cursor, char end);
// The names of a call's arguments or results, if there are any, and the comma after them.
std::vector<std::string_view> names_in_parentheses(Cursor& cursor);

// Bytes of the smallest part of shared memory that a load, store or atomic operation may want, 4 at most.
uint32_t shared_granule_of(const Statement& statement);

}  // namespace gradmill::paper::ptx
