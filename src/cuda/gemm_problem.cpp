// SPDX-License-Identifier: Apache-2.0
#include "cuda/gemm_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace gradmill::cuda {
namespace {

// The alignment of a tensor and of the others in its batch, which are `step` elements apart.
uint16_t alignment_of(const TensorView& view, int64_t step = 0) {
  if (!view.defined()) return 0;
  const auto address = reinterpret_cast<uintptr_t>(view.data) | static_cast<uintptr_t>(step) * size_of(view.dtype);
  return static_cast<uint16_t>(1u << std::min(std::countr_zero(address), 8));
}

}  // namespace

GemmProblem problem_of(const GemmCall& call, int compute_capability) {
  GemmProblem problem;
  problem.m = call.c.rows();
  problem.n = call.c.cols();
  problem.k = call.transpose_a ? call.a.rows() : call.a.cols();
  problem.stride_a = call.a.row_stride;
  problem.stride_b = call.b.row_stride;
  problem.stride_c = call.c.row_stride;
  problem.operand = call.a.dtype;
  problem.result = call.c.dtype;
  problem.transpose_a = call.transpose_a;
  problem.transpose_b = call.transpose_b;
  problem.adds = call.beta != 0;
  problem.bias = call.bias.defined();
  problem.tf32 = call.tf32 && call.a.dtype == DType::fp32 && compute_capability >= 80;
  problem.deterministic = call.deterministic;
  problem.batch = call.batch;
  problem.alignment = {alignment_of(call.a, call.batch.a), alignment_of(call.b, call.batch.b),
                       alignment_of(call.c, call.batch.c), alignment_of(call.bias), 0};
  problem.epilogue = call.epilogue;
  if (problem.epilogue != GemmEpilogue::none) {
    problem.sums_follow = call.sums_follow;
    problem.stride_aux = call.aux.row_stride;
    problem.alignment[4] = alignment_of(call.aux);
  }
  return problem;
}

std::string GemmProblem::str() const {
  constexpr std::string_view epilogues[] = {"", "gelu", "gelu gradient"};
  const std::string after = epilogue == GemmEpilogue::none
                                ? ""
                                : fmt::format(", {}{}: aux {} {}", epilogues[static_cast<size_t>(epilogue)],
                                              sums_follow ? " and sums" : "", stride_aux, alignment[4]);
  const std::string each =
      batch.count == 1 ? "" : fmt::format(", {} in steps of {} {} {}", batch.count, batch.a, batch.b, batch.c);
  return fmt::format("{}x{}x{} {}{} {}>{}{}{}{}, strides {} {} {}, alignment {} {} {} {}{}{}", m, n, k,
                     transpose_a ? 't' : 'n', transpose_b ? 't' : 'n', tf32 ? "tf32" : name_of(operand),
                     name_of(result), adds ? " + beta c" : "", bias ? " + bias" : "",
                     deterministic ? " deterministic" : "", stride_a, stride_b, stride_c, alignment[0], alignment[1],
                     alignment[2], alignment[3], each, after);
}

size_t GemmProblemHash::operator()(const GemmProblem& problem) const {
  uint64_t hash = 0;
  const auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  };
  const BatchSteps& batch = problem.batch;
  for (int64_t value : {problem.m, problem.n, problem.k, problem.stride_a, problem.stride_b, problem.stride_c,
                        problem.stride_aux, batch.count, batch.a, batch.b, batch.c})
    mix(static_cast<uint64_t>(value));
  uint64_t flags = 0;
  for (int value : {static_cast<int>(problem.operand), static_cast<int>(problem.result), int(problem.adds),
                    int(problem.transpose_a), int(problem.transpose_b), int(problem.bias), int(problem.tf32),
                    int(problem.deterministic), static_cast<int>(problem.epilogue), int(problem.sums_follow)})
    flags = flags * 8 + static_cast<uint64_t>(value);
  mix(flags);
  for (uint16_t bytes : problem.alignment) mix(bytes);
  return hash;
}

}  // namespace gradmill::cuda
