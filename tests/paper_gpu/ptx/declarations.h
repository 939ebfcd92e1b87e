// SPDX-License-Identifier: Apache-2.0
// Parses the declarations of variables and names in a kernel's text.
#pragma once

#include <string_view>
#include <vector>

#include "paper_gpu/ptx/module.h"
#include "paper_gpu/ptx/syntax.h"

namespace gradmill::paper::ptx {

// The type, name and size of a variable or parameter, after its space.
Variable read_variable(Cursor& cursor, std::string_view& name);
// Places a variable after the previous ones: returns its start and moves `end`.
uint32_t place(uint32_t& end, const Variable& variable);
// Names separated by commas, up to and including `end`.
std::vector<std::string_view> names_up_to(Cursor& cursor, char end);
// The names of a call's arguments or results, if any, and the comma after them.
std::vector<std::string_view> names_in_parentheses(Cursor& cursor);

// The smallest part of shared memory, in bytes, that a load, store or atomic operation may access; at most 4.
uint32_t shared_granule_of(const Statement& statement);

}  // namespace gradmill::paper::ptx
