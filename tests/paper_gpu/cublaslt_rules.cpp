// SPDX-License-Identifier: Apache-2.0
// What cuBLASLt 13.0 supports, according to NVIDIA's documentation of cublasLtMatmul() and cublasLt.h. Comments mark
// facts from other sources. That tf32 needs 8.0 is a guess; the library may support it on older GPUs, but we never ask.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "paper_gpu/cublaslt_problem.h"
#include "paper_gpu/cublaslt_types.h"

namespace gradmill::paper {
namespace {

constexpr uint32_t kVector = 16;  // bytes per load

std::string why_matrix_wrong(const std::string& what, const Layout& layout, uint64_t rows, uint64_t cols) {
  if (size_of(layout.type) == 0) {
    return fmt::format("a product's {} has {}, which is not on paper", what, name_of(layout.type));
  }
  if (layout.rows != rows || layout.cols != cols) {
    return fmt::format("a product's {} is {} x {}, the others want {} x {}", what, layout.rows, layout.cols, rows,
                       cols);
  }
  if (rows == 0 || cols == 0) return fmt::format("a product's {} is empty", what);
  if (layout.stride < static_cast<int64_t>(rows)) return fmt::format("columns of a product's {} overlap", what);
  return {};
}

// The matrices of a batch are stored one after the other, or side by side in the same columns.
bool overlaps_itself(const Layout& layout) {
  const auto rows = static_cast<int64_t>(layout.rows), cols = static_cast<int64_t>(layout.cols);
  const int64_t extent = (cols - 1) * layout.stride + rows;
  const bool side_by_side = layout.step >= rows && (layout.count - 1) * layout.step + rows <= layout.stride;
  return layout.count > 1 && layout.step < extent && !side_by_side;
}

bool knows_compute_type(const Problem& problem) {
  const bool known = problem.compute == CUBLAS_COMPUTE_32F || problem.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  return known || problem.is_fp8();  // the library itself refuses other types for FP8
}

bool is_one_of(cudaDataType type, std::initializer_list<cudaDataType> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

std::string why_not_plain(const Problem& problem, const Alignments& promised, int compute_capability) {
  if (problem.a.type != problem.b.type) return "operands of two types";
  if (problem.c.type != problem.d.type) return "c and d of two types";
  if (!is_one_of(problem.d.type, {problem.a.type, CUDA_R_32F})) {
    return fmt::format("{} operands with a result in {}", name_of(problem.a.type), name_of(problem.d.type));
  }
  const Alignments& p = promised;
  if (p.a % size_of(problem.a.type) != 0 || p.b % size_of(problem.b.type) != 0 || p.c % size_of(problem.c.type) != 0 ||
      p.d % size_of(problem.d.type) != 0) {
    return "a matrix whose elements are not aligned";
  }
  // bf16 works before 8.0 too: pytorch/pytorch issue 57773 reports tests that pass on a T4.
  if (problem.compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
    if (problem.a.type != CUDA_R_32F) return "tf32 with operands that are not fp32";
    if (compute_capability < 80) return "tf32 before compute capability 8.0";
  }
  if (problem.adds_bias() && problem.bias_type != problem.d.type) return "a bias of another type than the result";
  return {};
}

std::string why_not_fp8_types(const Problem& problem) {
  const cudaDataType c = problem.c.type, d = problem.d.type;
  if (!is_fp8(problem.a.type) || !is_fp8(problem.b.type)) return "FP8 with an operand of another type";
  const bool has_e4m3 = problem.a.type == CUDA_R_8F_E4M3 || problem.b.type == CUDA_R_8F_E4M3;
  if (!has_e4m3) return "E5M2 times E5M2";
  if (problem.a.type == problem.b.type && d == CUDA_R_8F_E5M2) return "E4M3 times E4M3 with a result in E5M2";
  if (is_fp8(d) ? !is_one_of(c, {CUDA_R_16BF, CUDA_R_16F}) : c != d) {
    return fmt::format("a result in {} with c in {}", name_of(d), name_of(c));
  }
  const cudaDataType bias = c == CUDA_R_16F ? CUDA_R_16F : CUDA_R_16BF;
  if (problem.adds_bias() && problem.bias_type != bias) {
    return fmt::format("a bias in {} where it must be {}", name_of(problem.bias_type), name_of(bias));
  }
  return {};
}

// Whether the matrix can be loaded in vectors.
bool is_even(const Layout& layout, uint32_t promised) {
  const auto size = static_cast<int64_t>(size_of(layout.type));
  const bool steps = layout.count == 1 || layout.step * size % kVector == 0;
  return promised % kVector == 0 && layout.stride * size % kVector == 0 && steps;
}

// Not documented: surogate and llmq have seen Hopper's library refuse scales at other addresses.
bool lacks_even_scale(const Problem& problem, int compute_capability) {
  if (compute_capability / 10 != 9) return false;
  const auto uneven = [](const float* scale) { return reinterpret_cast<uintptr_t>(scale) % kVector != 0; };
  return uneven(problem.scale_a) || uneven(problem.scale_b) || uneven(problem.scale_c) || uneven(problem.scale_d);
}

std::string why_not_fp8(const Problem& problem, const Alignments& promised, int compute_capability) {
  if (compute_capability < 89) return "FP8 before compute capability 8.9";
  if (problem.compute != CUBLAS_COMPUTE_32F) return "FP8 with another compute type than 32F";
  // Version 13.6 supports all layouts on 12.x: pytorch/pytorch issue 198126.
  const bool only_tn = compute_capability < 100 || compute_capability / 10 == 12;
  if (only_tn && (!problem.a_turned || problem.b_turned)) return "FP8 unless a is transposed and b is not";
  if (std::string reason = why_not_fp8_types(problem); !reason.empty()) return reason;
  if (!is_even(problem.a, promised.a) || !is_even(problem.b, promised.b) || !is_even(problem.c, promised.c) ||
      !is_even(problem.d, promised.d)) {
    return "FP8 with a matrix whose address or columns are not aligned to 16 bytes";
  }
  if (problem.d.rows % 16 != 0 || problem.depth % 16 != 0) return "FP8 with m or k that 16 does not divide";
  if (lacks_even_scale(problem, compute_capability)) return "a scale that is not aligned to 16 bytes";
  return {};
}

std::string why_not_aux(const Problem& problem) {
  constexpr int64_t kStep = 8;
  const Layout& aux = problem.aux_layout;
  if (is_fp8(aux.type)) return "aux in FP8";
  if (!is_fp8(problem.d.type) && aux.type != problem.d.type) return "aux of another type than the result";
  if (aux.stride % kStep != 0 || (aux.count > 1 && aux.step % kStep != 0)) {
    return fmt::format("aux with columns {} elements apart: must be a multiple of 8", aux.stride);
  }
  // According to cublasLt.h, the heuristic depends on the address, but not how. This is the rule we follow.
  if (reinterpret_cast<uintptr_t>(problem.aux) % kVector != 0) return "aux that is not aligned to 16 bytes";
  return {};
}

// Scales belong to FP8 matrices. A scale for c is accepted with FP8 operands, although c is never FP8.
bool has_scale_without_fp8(const Problem& problem) {
  const bool operands = problem.scale_a != nullptr || problem.scale_b != nullptr || problem.scale_c != nullptr;
  const bool result = problem.scale_d != nullptr || problem.amax != nullptr;
  return (operands && !problem.is_fp8()) || (result && !is_fp8(problem.d.type));
}

}  // namespace

std::string why_wrong(const Problem& problem) {
  const uint64_t rows = problem.d.rows, cols = problem.d.cols, depth = problem.depth;
  const Layout &a = problem.a, &b = problem.b, &c = problem.c, &d = problem.d;
  const std::string reasons[] = {
      why_matrix_wrong("first matrix", a, problem.a_turned ? depth : rows, problem.a_turned ? rows : depth),
      why_matrix_wrong("second matrix", b, problem.b_turned ? cols : depth, problem.b_turned ? depth : cols),
      why_matrix_wrong("sum", c, rows, cols),
      why_matrix_wrong("result", d, rows, cols),
      problem.has_aux() ? why_matrix_wrong("aux", problem.aux_layout, rows, cols) : "",
  };
  for (const std::string& reason : reasons) {
    if (!reason.empty()) return reason;
  }
  if (a.count != d.count || b.count != d.count || c.count != d.count || d.count < 1) {
    return fmt::format("batches of {}, {}, {} and {} matrices are multiplied", a.count, b.count, c.count, d.count);
  }
  if (overlaps_itself(d)) return "results of a batch of products overlap";
  if (problem.writes_aux() && overlaps_itself(problem.aux_layout)) return "aux of a batch of products overlap";
  if (problem.adds_bias() && problem.bias == nullptr) return "a product adds a bias that is not set";
  if (problem.has_aux() && problem.aux == nullptr) return "a product needs aux, which is not set";
  if (!knows_compute_type(problem)) return fmt::format("compute type {} is not on paper", int(problem.compute));
  return {};
}

Refusal why_refused(const Problem& problem, const Alignments& promised, int compute_capability) {
  const auto refuse = [](std::string reason) { return Refusal{CUBLAS_STATUS_NOT_SUPPORTED, std::move(reason)}; };
  if (has_scale_without_fp8(problem)) return {CUBLAS_STATUS_INVALID_VALUE, "a scale or amax of a matrix not in FP8"};
  if (problem.scale_type != CUDA_R_32F) return refuse("another scale type than fp32");
  std::string reason = problem.is_fp8() ? why_not_fp8(problem, promised, compute_capability)
                                        : why_not_plain(problem, promised, compute_capability);
  if (reason.empty() && problem.has_aux()) reason = why_not_aux(problem);
  if (!reason.empty()) return refuse(std::move(reason));
  return {};
}

}  // namespace gradmill::paper
