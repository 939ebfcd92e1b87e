// SPDX-License-Identifier: Apache-2.0
// The kinds of instructions that are counted separately, by the unit of a multiprocessor that executes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "paper_gpu/ptx/syntax.h"

namespace gradmill::paper::ptx {

enum class Unit : uint8_t {
  move,      // of registers, addresses and parameters; compilers remove most of them
  integer,   // also logic, comparisons and selections
  fp32,      // sums and products
  half,      // fp16 and bf16, single or in pairs
  fp64,      // sums and products
  special,   // roots, exponentials, divisions
  convert,   // from one type to another
  exchange,  // between the lanes of a warp
  global,    // loads and stores
  shared,    // loads and stores
  local,     // loads and stores of the thread's own memory and of constants
  atomic,    // in global or shared memory
  copy,      // asynchronous
  sync,      // barriers, fences and waits
  matrix,    // products of warps; a warpgroup's product counts four times
  control,   // branches and ends
};
inline constexpr size_t kNumUnits = 16;

std::string_view name_of(Unit unit);

// By the statement's name. Loads and stores at generic addresses count as global.
Unit unit_of(const Statement& statement);

}  // namespace gradmill::paper::ptx
