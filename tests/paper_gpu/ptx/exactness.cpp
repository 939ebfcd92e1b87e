// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/exactness.h"

#include <fmt/format.h>

#include <algorithm>

namespace gradmill::paper::ptx {
namespace {

bool is_of_floats(std::string_view type) { return type.starts_with("f") || type.starts_with("bf"); }

// Integer sums are the same in any order, and so are minima and maxima.
bool adds_floats_in_any_order(const Statement& s) {
  const std::string_view base = s.parts[0];
  const bool reduces = base == "atom" || base == "red" || s.name.starts_with("cp.reduce");
  return reduces && s.has("add") && is_of_floats(s.type());
}

// The last type of a product is that of its sums.
bool multiplies_matrices_of_floats(const Statement& s) {
  const bool multiplies = s.parts[0] == "mma" || s.has("mma_async");
  const auto is_integer = [](std::string_view part) { return part == "s32"; };
  return multiplies && std::none_of(s.parts.begin(), s.parts.end(), is_integer);
}

}  // namespace

bool is_exact(const Statement& s) {
  const bool approximates = s.has("approx") || s.has("full");
  return !approximates && !adds_floats_in_any_order(s) && !multiplies_matrices_of_floats(s);
}

std::string why_inexact(const Kernel& kernel) {
  const auto found =
      std::find_if(kernel.code.begin(), kernel.code.end(), [](const Instruction& i) { return i.inexact; });
  if (found == kernel.code.end()) return {};
  return fmt::format("{} in {}", place_of(kernel, *found), readable_name(kernel.name));
}

}  // namespace gradmill::paper::ptx
