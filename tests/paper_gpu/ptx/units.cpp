// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/units.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace gradmill::paper::ptx {
namespace {

constexpr std::array<std::string_view, kNumUnits> kNames = {
    "move",   "integer", "fp32",  "half",   "fp64", "special", "convert", "exchange",
    "global", "shared",  "local", "atomic", "copy", "sync",    "matrix",  "control"};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Unit unit_of_memory(const Statement& s) {
  if (s.has("param")) return s.parts[0] == "ld" ? Unit::move : Unit::local;
  if (s.has("local") || s.has("const")) return Unit::local;
  for (const std::string_view part : s.parts) {
    if (part.starts_with("shared")) return Unit::shared;
  }
  return Unit::global;
}

// Copies, and instructions that wait for them.
Unit unit_of_copy(const Statement& s) {
  return is_one_of(s.parts.back(), {"commit_group", "wait_all"}) || s.has("wait_group") || s.has("mbarrier")
             ? Unit::sync
             : Unit::copy;
}

Unit unit_of_arithmetic(std::string_view type) {
  if (type == "f32" || type == "f32x2") return Unit::fp32;
  if (type == "f64") return Unit::fp64;
  return is_one_of(type, {"f16", "f16x2", "bf16", "bf16x2"}) ? Unit::half : Unit::integer;
}

}  // namespace

std::string_view name_of(Unit unit) { return kNames[static_cast<size_t>(unit)]; }

Unit unit_of(const Statement& s) {
  const std::string_view base = s.parts[0];
  if (is_one_of(base, {"mov", "cvta", "isspacep", "mapa", "getctarank"})) return Unit::move;
  if (is_one_of(base, {"bra", "brx", "ret", "exit", "trap", "call"})) return Unit::control;
  if (is_one_of(base, {"ld", "ldu", "st"})) return unit_of_memory(s);
  if (is_one_of(base, {"ldmatrix", "stmatrix"})) return Unit::shared;
  if (is_one_of(base, {"atom", "red"})) return s.has("async") ? Unit::copy : Unit::atomic;
  if (is_one_of(base, {"shfl", "vote", "match", "redux", "activemask", "elect", "movmatrix"})) return Unit::exchange;
  if (is_one_of(base, {"bar", "barrier", "membar", "fence", "mbarrier", "griddepcontrol"})) return Unit::sync;
  if (base == "cp") return unit_of_copy(s);
  if (base == "wgmma") return s.has("mma_async") ? Unit::matrix : Unit::sync;
  if (base == "mma") return Unit::matrix;
  if (base == "cvt") return Unit::convert;
  if (is_one_of(base, {"ex2", "lg2", "sin", "cos", "rcp", "rsqrt", "sqrt", "tanh", "div"})) {
    return unit_of_arithmetic(s.type()) == Unit::integer ? Unit::integer : Unit::special;
  }
  if (is_one_of(base, {"add", "sub", "mul", "fma", "mad", "abs", "neg"})) return unit_of_arithmetic(s.type());
  return Unit::integer;
}

}  // namespace gradmill::paper::ptx
