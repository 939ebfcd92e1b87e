// SPDX-License-Identifier: Apache-2.0
// The meaning of names between two braces of a kernel's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "paper_gpu/ptx/kernel.h"

namespace gradmill::paper::ptx {

// A variable of the kernel: its start in its space.
struct Symbol {
  Space space = Space::shared;
  uint32_t at = 0;
  bool dynamic = false;        // starts after all other shared memory
  std::byte* table = nullptr;  // a variable of the module
};

struct Scope {
  int parent = -1;
  std::unordered_map<std::string_view, uint32_t> registers;  // virtual registers
  std::unordered_map<std::string_view, uint32_t> predicates;
  std::unordered_map<std::string_view, Symbol> symbols;
  std::unordered_map<std::string_view, uint32_t> labels;                        // instruction indices
  std::unordered_map<std::string_view, std::vector<std::string_view>> targets;  // lists of labels, for brx.idx
};

}  // namespace gradmill::paper::ptx
