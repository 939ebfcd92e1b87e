// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cublaslt_memory.h"

#include <fmt/format.h>

#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/shadow.h"

namespace gradmill::paper {
namespace {

// Calls `visit` for each run of contiguous bytes until it returns false.
template <class Visit>
bool for_each_run(const void* data, const Layout& layout, const Visit& visit) {
  const bool packed = layout.stride == static_cast<int64_t>(layout.rows);
  const uint64_t runs = packed ? 1 : layout.cols;
  const size_t bytes = layout.rows * (packed ? layout.cols : 1) * size_of(layout.type);
  for (int32_t item = 0; item < layout.count; ++item) {
    for (uint64_t run = 0; run < runs; ++run) {
      if (!visit(column_of(data, layout, item, run), bytes)) return false;
    }
  }
  return true;
}

uint64_t address_of(const void* data) { return reinterpret_cast<uint64_t>(data); }

bool is_there(const void* data, const Layout& layout) {
  return for_each_run(data, layout,
                      [](const void* run, size_t bytes) { return why_not_written(address_of(run), bytes).empty(); });
}

// Reports one fault, for the first invalid run.
bool expect_read(const void* data, const Layout& layout, const std::string& what) {
  const bool good = for_each_run(data, layout, [&](const void* run, size_t bytes) {
    if (why_not_read(address_of(run), bytes).empty()) return true;
    expect_readable(run, bytes, what);
    return false;
  });
  return good || is_there(data, layout);
}

bool expect_written(const void* data, const Layout& layout, const std::string& what) {
  return for_each_run(data, layout, [&](const void* run, size_t bytes) {
    if (why_not_written(address_of(run), bytes).empty()) return true;
    expect_writable(run, bytes, what);
    return false;
  });
}

// The bias as a batch of matrices with one column.
Layout bias_layout(const Problem& problem) {
  return {.type = problem.bias_type,
          .rows = problem.d.rows,
          .cols = 1,
          .stride = static_cast<int64_t>(problem.d.rows),
          .count = problem.d.count,
          .step = problem.bias_step};
}

constexpr Layout kScalar{.type = CUDA_R_32F, .rows = 1, .cols = 1, .stride = 1};

void mark(const void* data, const Layout& layout) {
  for_each_run(data, layout, [](const void* run, size_t bytes) {
    mark_written(run, bytes);
    return true;
  });
}

}  // namespace

bool expect_inside(const Problem& problem, const Operands& operands) {
  const size_t before = faults().size();
  const auto expect = [](const void* data, const Layout& layout, const std::string& what) {
    const int64_t last = (layout.count - 1) * layout.step + static_cast<int64_t>(layout.cols - 1) * layout.stride +
                         static_cast<int64_t>(layout.rows);
    if (address_of(data) % size_of(layout.type) != 0) {
      fault(fmt::format("{} is not aligned to its elements of {} bytes", what, size_of(layout.type)));
    }
    expect_inside(data, static_cast<size_t>(last) * size_of(layout.type), Where::device_or_host, what);
  };
  expect(operands.a, problem.a, "a product's first matrix");
  expect(operands.b, problem.b, "a product's second matrix");
  const bool may_read_c = operands.beta_on_device != nullptr || operands.beta != 0;
  if (may_read_c) expect(operands.c, problem.c, "a product's sum");
  expect(operands.d, problem.d, "a product's result");
  if (problem.adds_bias()) expect(problem.bias, bias_layout(problem), "a product's bias");
  if (problem.has_aux()) expect(problem.aux, problem.aux_layout, "a product's aux");
  return faults().size() == before;
}

bool expect_scalar(const float* scalar, const std::string& what) { return expect_read(scalar, kScalar, what); }

bool expect_matrices(const Problem& problem, const Operands& operands, bool reads_c) {
  bool good = expect_read(operands.a, problem.a, "a product's first matrix");
  good &= expect_read(operands.b, problem.b, "a product's second matrix");
  if (reads_c) good &= expect_read(operands.c, problem.c, "a product's sum");
  if (problem.adds_bias()) good &= expect_read(problem.bias, bias_layout(problem), "a product's bias");
  if (problem.gelu_gradient()) good &= expect_read(problem.aux, problem.aux_layout, "a product's aux");
  if (problem.writes_aux()) good &= expect_written(problem.aux, problem.aux_layout, "a product's aux");
  if (problem.amax != nullptr) good &= expect_written(problem.amax, kScalar, "a product's amax");
  good &= expect_written(operands.d, problem.d, "a product's result");
  return good;
}

void mark_results_written(const Problem& problem, const Operands& operands) {
  mark(operands.d, problem.d);
  if (problem.writes_aux()) mark(problem.aux, problem.aux_layout);
  if (problem.amax != nullptr) mark(problem.amax, kScalar);
}

}  // namespace gradmill::paper
