// SPDX-License-Identifier: Apache-2.0
#include "cuda/gemm_plan.h"

#include <algorithm>

namespace gradmill::cuda {
namespace {

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::fp16:
      return CUDA_R_16F;
    default:
      assert(dtype == DType::fp32);
      return CUDA_R_32F;
  }
}

// A row-major (rows, cols) matrix is a column-major (cols, rows) matrix.
LtLayout make_layout(const CublasLt& library, DType dtype, int64_t rows, int64_t cols, int64_t stride, int64_t count,
                     int64_t step) {
  cublasLtMatrixLayout_t raw = nullptr;
  library.check(
      library.layout_create(&raw, data_type(dtype), static_cast<uint64_t>(cols), static_cast<uint64_t>(rows), stride),
      "describing a matrix");
  LtLayout layout(raw, library.layout_destroy);
  if (count == 1) return layout;
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    library.check(library.layout_set(raw, attribute, &value, sizeof(value)), "describing matrices");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(count));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
  return layout;
}

uint32_t epilogue_of(const GemmProblem& problem) {
  switch (problem.epilogue) {
    case GemmEpilogue::gelu:
      return problem.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case GemmEpilogue::gelu_gradient:
      assert(!problem.bias);
      return CUBLASLT_EPILOGUE_DGELU;
    case GemmEpilogue::none:
      break;
  }
  return problem.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

LtMatmulDesc make_operation(const CublasLt& library, const GemmProblem& problem, const GemmCall& call) {
  cublasLtMatmulDesc_t raw = nullptr;
  const cublasComputeType_t compute = problem.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  library.check(library.desc_create(&raw, compute, CUDA_R_32F), "describing a product");
  LtMatmulDesc operation(raw, library.desc_destroy);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    library.check(library.desc_set(raw, attribute, &value, sizeof(value)), "describing a product");
  };
  const auto transposition = [](bool transpose) { return int32_t{transpose ? CUBLAS_OP_T : CUBLAS_OP_N}; };
  set(CUBLASLT_MATMUL_DESC_TRANSA, transposition(problem.transpose_b));
  set(CUBLASLT_MATMUL_DESC_TRANSB, transposition(problem.transpose_a));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(problem));
  if (problem.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias.data);
  if (problem.epilogue != GemmEpilogue::none) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.aux.data);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, problem.stride_aux);
  }
  return operation;
}

}  // namespace

GemmPlan::GemmPlan(const CublasLt& library, const GemmProblem& problem, const GemmCall& call)
    : problem_(problem),
      operation_(make_operation(library, problem, call)),
      first_(make_layout(library, problem.operand, problem.transpose_b ? problem.n : problem.k,
                         problem.transpose_b ? problem.k : problem.n, problem.stride_b, problem.batch.count,
                         problem.batch.b)),
      second_(make_layout(library, problem.operand, problem.transpose_a ? problem.k : problem.m,
                          problem.transpose_a ? problem.m : problem.k, problem.stride_a, problem.batch.count,
                          problem.batch.a)),
      result_(make_layout(library, problem.result, problem.m, problem.n, problem.stride_c, problem.batch.count,
                          problem.batch.c)) {}

LtPreference GemmPlan::preference(const LtContext& lt) const {
  cublasLtMatmulPreference_t raw = nullptr;
  lt.library.check(lt.library.preference_create(&raw), "choosing an algorithm");
  LtPreference preference(raw, lt.library.preference_destroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    lt.library.check(lt.library.preference_set(raw, attribute, &value, sizeof(value)), "choosing an algorithm");
  };
  const auto& [a, b, c, bias, aux] = problem_.alignment;
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{lt.workspace.size()});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t{b});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t{a});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, uint32_t{c});
  // The epilogue stores the result together with loads of bias and accesses to aux, so all of them must allow the
  // width.
  uint32_t stored = c;
  for (uint32_t with : {uint32_t{bias}, uint32_t{aux}}) stored = with ? std::min(stored, with) : stored;
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, stored);
  // A GEMM split along k may round more than once on the way to a narrow result. Our contract is one rounding.
  const uint32_t schemes =
      problem_.result == DType::fp32 ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  return preference;
}

std::vector<cublasLtMatmulAlgo_t> GemmPlan::suggest(const LtContext& lt, int count) const {
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(count));
  int found = 0;
  const cublasStatus_t status =
      lt.library.heuristic(lt.handle, operation_.get(), first_.get(), second_.get(), result_.get(), result_.get(),
                           preference(lt).get(), count, results.data(), &found);
  // A library of another version may not know this epilogue. That is not an error, because the caller has another way.
  const bool optional = problem_.epilogue != GemmEpilogue::none;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (optional && status != CUBLAS_STATUS_SUCCESS)) return {};
  lt.library.check(status, "choosing an algorithm");
  std::vector<cublasLtMatmulAlgo_t> algos;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= lt.workspace.size())
      algos.push_back(result.algo);
  }
  return algos;
}

bool GemmPlan::accepts(const LtContext& lt, const cublasLtMatmulAlgo_t& candidate) const {
  cublasLtMatmulHeuristicResult_t result{};
  return lt.library.algo_check(lt.handle, operation_.get(), first_.get(), second_.get(), result_.get(), result_.get(),
                               &candidate, &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= lt.workspace.size();
}

cublasStatus_t GemmPlan::run(const LtContext& lt, const GemmCall& call, const cublasLtMatmulAlgo_t& chosen) const {
  const auto point_to = [&](cublasLtMatmulDescAttributes_t attribute, void* const& data) {
    return lt.library.desc_set(operation_.get(), attribute, &data, sizeof(data));
  };
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if (problem_.bias) status = point_to(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias.data);
  if (status == CUBLAS_STATUS_SUCCESS && problem_.epilogue != GemmEpilogue::none) {
    status = point_to(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.aux.data);
  }
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  return lt.library.matmul(lt.handle, operation_.get(), &call.alpha, call.b.data, first_.get(), call.a.data,
                           second_.get(), &call.beta, call.c.data, result_.get(), call.c.data, result_.get(), &chosen,
                           lt.workspace.data(), lt.workspace.size(), lt.stream);
}

}  // namespace gradmill::cuda
