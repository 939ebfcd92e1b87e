// SPDX-License-Identifier: Apache-2.0
// cuBLASLt on the paper GPU: the library's functions. It is a fault if matrices do not exist, do not fit together, or
// are less aligned than the algorithm was told. If this GPU's library does not support a GEMM, the functions return the
// library's status; if CUBLASLT_LOG_LEVEL is set, the reason is printed on stderr, as by the real library.
#include <cublasLt.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "paper_gpu/cublaslt_duration.h"
#include "paper_gpu/cublaslt_product.h"
#include "paper_gpu/model/launch_time.h"
#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/streams.h"

namespace gradmill::paper {
namespace {

// What an algorithm was chosen for. The library's own struct has space for it.
struct Promise {
  uint64_t mark, workspace_bytes;
  Alignments alignments;
};
static_assert(sizeof(Promise) <= sizeof(cublasLtMatmulAlgo_t));
constexpr uint64_t kMark = 0x7061706572206c74;  // marks records that the heuristic has filled
// Without an algorithm the library chooses one itself.
constexpr Promise kNoPromise{kMark, 0, {}};

Promise promise_of(const cublasLtMatmulAlgo_t* algo) {
  if (algo == nullptr) return kNoPromise;
  Promise promise = kNoPromise;
  std::memcpy(static_cast<void*>(&promise), algo, sizeof(promise));
  return promise;
}

template <class Object>
Object& as(const void* opaque) {
  return *static_cast<Object*>(const_cast<void*>(opaque));
}

Problem problem_of(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  return problem_of(as<Operation>(operation), as<Layout>(a), as<Layout>(b), as<Layout>(c), as<Layout>(d));
}

cublasStatus_t check(const Problem& problem, const Alignments& promised) {
  if (const std::string reason = why_wrong(problem); !reason.empty()) {
    fault(reason);
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Refusal refusal = why_refused(problem, promised, gpu().compute_capability);
  if (refusal.status != CUBLAS_STATUS_SUCCESS && std::getenv("CUBLASLT_LOG_LEVEL") != nullptr) {
    std::fprintf(stderr, "cuBLASLt on paper does not take %s\n", refusal.reason.c_str());
  }
  return refusal.status;
}

void expect_aligned(const std::string& what, const void* data, uint32_t alignment) {
  if (alignment != 0 && reinterpret_cast<uintptr_t>(data) % alignment != 0) {
    fault(fmt::format("a product's {} is not aligned to {} bytes as was promised", what, alignment));
  }
}

// Checks that the call matches the algorithm's record.
cublasStatus_t expect_kept(const Promise& promise, const Operands& operands, const void* workspace, size_t bytes) {
  if (promise.mark != kMark) {
    fault("a product's algorithm is not one that the library has chosen");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  expect_aligned("first matrix", operands.a, promise.alignments.a);
  expect_aligned("second matrix", operands.b, promise.alignments.b);
  expect_aligned("sum", operands.c, promise.alignments.c);
  expect_aligned("result", operands.d, promise.alignments.d);
  if (bytes > 0) expect_inside(workspace, bytes, Where::device, "a product's workspace");
  if (bytes >= promise.workspace_bytes) return CUBLAS_STATUS_SUCCESS;
  fault(fmt::format("a product's workspace has {} bytes, its algorithm needs {}", bytes, promise.workspace_bytes));
  return CUBLAS_STATUS_INVALID_VALUE;
}

// Scalars on the host are read now, those on the device when the work is done.
void set_scalars(Operands& operands, bool on_device, const void* alpha, const void* beta) {
  const auto *first = static_cast<const float*>(alpha), *second = static_cast<const float*>(beta);
  if (on_device) {
    operands.alpha_on_device = first;
    operands.beta_on_device = second;
  } else {
    operands.alpha = *first;
    operands.beta = *second;
  }
}

}  // namespace
}  // namespace gradmill::paper

using namespace gradmill::paper;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "the paper GPU refuses";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t compute,
                                        cudaDataType_t scale_type) {
  *operation = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation{compute, scale_type, {}});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete reinterpret_cast<Operation*>(operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t size) {
  return set_attribute(as<Operation>(operation), which, value, size);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t stride) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, cols, stride});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(const cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, size_t size) {
  auto& described = as<Layout>(layout);
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && size == sizeof(described.count)) {
    std::memcpy(&described.count, value, size);
  } else if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && size == sizeof(described.step)) {
    std::memcpy(&described.step, value, size);
  } else {
    fault(fmt::format("attribute {} of a matrix is not on paper", int(which)));
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Attributes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Attributes*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which, const void* value,
                                                    size_t size) {
  switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      break;
    default:
      fault(fmt::format("attribute {} of a preference is not on paper", int(which)));
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  const size_t expected = which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? sizeof(uint64_t) : sizeof(uint32_t);
  if (size != expected) {
    fault(fmt::format("attribute {} of a preference has {} bytes, not {}", int(which), expected, size));
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  as<Attributes>(preference).put(which, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

// Returns as many algorithms as requested, so that a tuner has a choice.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  const auto& asked = as<Attributes>(preference);
  const Alignments usual;
  const Promise promise{.mark = kMark,
                        .workspace_bytes = asked.get(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{0}),
                        .alignments = {asked.get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, usual.a),
                                       asked.get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, usual.b),
                                       asked.get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, usual.c),
                                       asked.get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, usual.d)}};
  *found = 0;
  const cublasStatus_t status = check(problem_of(operation, a, b, c, d), promise.alignments);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  for (int i = 0; i < wanted; ++i) {
    results[i] = {};
    std::memcpy(&results[i].algo, &promise, sizeof(promise));
    results[i].workspaceSize = promise.workspace_bytes;
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  *found = wanted;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  const Promise promise = promise_of(algo);
  *result = {};
  if (promise.mark != kMark) return CUBLAS_STATUS_INVALID_VALUE;
  result->algo = *algo;
  result->workspaceSize = promise.workspace_bytes;
  return result->state = check(problem_of(operation, a, b, c, d), promise.alignments);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  ++counts().products;
  const Problem problem = problem_of(operation, a_layout, b_layout, c_layout, d_layout);
  const Promise promise = promise_of(algo);
  if (const cublasStatus_t status = check(problem, promise.alignments); status != CUBLAS_STATUS_SUCCESS) return status;
  Operands operands{.a = a, .b = b, .c = c, .d = d};
  set_scalars(operands, problem.scalars_on_device, alpha, beta);
  const cublasStatus_t status = expect_kept(promise, operands, workspace, workspace_bytes);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  // The library does not check memory: it would return success and fail later.
  std::function<void()> work;
  if (expect_inside(problem, operands) && computes()) {
    work = [=] {
      note_inexact("a product of cuBLASLt");
      compute(problem, operands);
    };
  }
  if (model::models_time()) {
    work = [compute = std::move(work), seconds = duration_of(problem, operands)] {
      if (compute) compute();
      take_time(seconds);
    };
  }
  return enqueue(stream, work) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
