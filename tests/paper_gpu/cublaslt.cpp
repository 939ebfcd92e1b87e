// SPDX-License-Identifier: Apache-2.0
// cuBLASLt on paper: a product of matrices that are not there, do not fit together, or lie less aligned than its
// algorithm was told is a fault.
#include <cublasLt.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <map>

#include "paper_gpu/paper_gpu.h"
#include "paper_gpu/streams.h"

namespace gradmill::paper {
namespace {

struct Layout {
  cudaDataType type;
  uint64_t rows, cols;
  int64_t stride;
  int32_t count = 1;
  int64_t step = 0;
};

// Attributes by their numbers, as bytes: most are only kept.
using Attributes = std::map<int, std::array<std::byte, 16>>;

template <class Value>
Value get(const Attributes& attributes, int which, Value otherwise) {
  const auto found = attributes.find(which);
  if (found == attributes.end()) return otherwise;
  Value value;
  std::memcpy(&value, found->second.data(), sizeof(value));
  return value;
}

cublasStatus_t put(Attributes& attributes, int which, const void* value, size_t size) {
  if (size > sizeof(Attributes::mapped_type)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(attributes[which].data(), value, size);
  return CUBLAS_STATUS_SUCCESS;
}

// The alignments that were promised when the algorithm was chosen; the library's own record has room for them.
struct Promise {
  uint32_t a, b, c, d;
};
static_assert(sizeof(Promise) <= sizeof(cublasLtMatmulAlgo_t));

size_t size_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

template <class Object>
Object& as(const void* opaque) {
  return *static_cast<Object*>(const_cast<void*>(opaque));
}

void check_matrix(const std::string& what, const void* data, const Layout& layout, uint64_t rows, uint64_t cols,
                  uint32_t alignment) {
  if (layout.rows != rows || layout.cols != cols) {
    fault(
        fmt::format("a product's {} is {} x {}, the others want {} x {}", what, layout.rows, layout.cols, rows, cols));
  }
  if (layout.stride < static_cast<int64_t>(layout.rows)) fault(fmt::format("columns of a product's {} overlap", what));
  if (alignment != 0 && reinterpret_cast<uintptr_t>(data) % alignment != 0) {
    fault(fmt::format("a product's {} is not aligned to {} bytes as was promised", what, alignment));
  }
  const auto last = static_cast<uint64_t>(layout.count - 1) * static_cast<uint64_t>(layout.step) +
                    (layout.cols - 1) * static_cast<uint64_t>(layout.stride) + layout.rows;
  expect_inside(data, last * size_of(layout.type), Where::device_or_host, "a product's " + what);
}

void check_epilogue(const Attributes& operation, const Layout& result) {
  const auto epilogue = get<uint32_t>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  if (epilogue & CUBLASLT_EPILOGUE_BIAS) {
    expect_inside(get<void*>(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr), result.rows * size_of(result.type),
                  Where::device_or_host, "a product's bias");
  }
  if (epilogue == CUBLASLT_EPILOGUE_DEFAULT || epilogue == CUBLASLT_EPILOGUE_BIAS) return;
  const auto stride = get<int64_t>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0);
  if (stride < static_cast<int64_t>(result.rows)) return fault("columns of a product's aux overlap");
  const uint64_t elements = (result.cols - 1) * static_cast<uint64_t>(stride) + result.rows;
  expect_inside(get<void*>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr),
                elements * size_of(result.type), Where::device_or_host, "a product's aux");
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

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t, cudaDataType_t) {
  *operation = reinterpret_cast<cublasLtMatmulDesc_t>(new Attributes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete reinterpret_cast<Attributes*>(operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t size) {
  return put(as<Attributes>(operation), which, value, size);
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
  return put(as<Attributes>(preference), which, value, size);
}

// As many algorithms as are asked for, so that a tuner has something to choose from.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  const auto& asked = as<Attributes>(preference);
  const Promise promise{get(asked, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 256u),
                        get(asked, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 256u),
                        get(asked, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 256u),
                        get(asked, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 256u)};
  for (int i = 0; i < wanted; ++i) {
    results[i] = {};
    std::memcpy(&results[i].algo, &promise, sizeof(promise));
    results[i].workspaceSize = get<uint64_t>(asked, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0);
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  *found = wanted;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t*, cublasLtMatmulHeuristicResult_t* result) {
  *result = {};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void*, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void*, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  ++counts().products;
  const auto& asked = as<Attributes>(operation);
  const auto &first = as<Layout>(a_layout), &second = as<Layout>(b_layout), &result = as<Layout>(d_layout);
  const bool a_turned = get<int32_t>(asked, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) != CUBLAS_OP_N;
  const bool b_turned = get<int32_t>(asked, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) != CUBLAS_OP_N;
  const uint64_t depth = a_turned ? first.rows : first.cols;
  Promise promise{};
  std::memcpy(&promise, algo, sizeof(promise));
  check_matrix("first matrix", a, first, a_turned ? depth : result.rows, a_turned ? result.rows : depth, promise.a);
  check_matrix("second matrix", b, second, b_turned ? result.cols : depth, b_turned ? depth : result.cols, promise.b);
  check_matrix("sum", c, as<Layout>(c_layout), result.rows, result.cols, promise.c);
  check_matrix("result", d, result, result.rows, result.cols, promise.d);
  check_epilogue(asked, result);
  expect_inside(workspace, workspace_bytes, Where::device, "a product's workspace");
  return enqueue(stream, {}) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
