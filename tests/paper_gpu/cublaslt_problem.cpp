// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cublaslt_problem.h"

#include <fmt/format.h>

#include <cstring>

#include "paper_gpu/cublaslt_types.h"
#include "paper_gpu/paper_gpu.h"

namespace gradmill::paper {
namespace {

constexpr int32_t kNotSet = -1;

struct Known {
  cublasLtMatmulDescAttributes_t which;
  size_t size;
};
constexpr Known kKnown[] = {
    {CUBLASLT_MATMUL_DESC_POINTER_MODE, sizeof(int32_t)},
    {CUBLASLT_MATMUL_DESC_TRANSA, sizeof(int32_t)},
    {CUBLASLT_MATMUL_DESC_TRANSB, sizeof(int32_t)},
    {CUBLASLT_MATMUL_DESC_EPILOGUE, sizeof(uint32_t)},
    {CUBLASLT_MATMUL_DESC_BIAS_POINTER, sizeof(void*)},
    {CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, sizeof(int64_t)},
    {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, sizeof(int32_t)},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, sizeof(void*)},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, sizeof(int64_t)},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, sizeof(int64_t)},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, sizeof(int32_t)},
    {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, sizeof(void*)},
    {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, sizeof(void*)},
    {CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, sizeof(void*)},
    {CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, sizeof(void*)},
    {CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, sizeof(void*)},
    {CUBLASLT_MATMUL_DESC_FAST_ACCUM, sizeof(int8_t)},
    {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, sizeof(int32_t)},
    {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, sizeof(int32_t)},
    {CUBLASLT_MATMUL_DESC_C_SCALE_MODE, sizeof(int32_t)},
    {CUBLASLT_MATMUL_DESC_D_SCALE_MODE, sizeof(int32_t)},
};

bool knows_epilogue(uint32_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
      return true;
    default:
      return false;
  }
}

// Why the paper GPU does not support a value of an attribute; empty if it does.
std::string why_unknown(int which, const void* value) {
  int32_t number = 0;
  const auto read = [&] { std::memcpy(&number, value, sizeof(number)); };
  switch (which) {
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      read();
      return knows_epilogue(static_cast<uint32_t>(number)) ? "" : fmt::format("epilogue {}", number);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      read();
      return number == CUBLASLT_POINTER_MODE_HOST || number == CUBLASLT_POINTER_MODE_DEVICE
                 ? ""
                 : fmt::format("pointer mode {}", number);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
    case CUBLASLT_MATMUL_DESC_C_SCALE_MODE:
    case CUBLASLT_MATMUL_DESC_D_SCALE_MODE:
      read();
      return number == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F ? "" : fmt::format("scale mode {}", number);
    default:
      return {};
  }
}

// FP8 operands with an fp32 result use a bf16 bias. With an FP8 result the bias has the type of c.
cudaDataType usual_bias_type(const Layout& a, const Layout& c, const Layout& d) {
  if (is_fp8(a.type) && d.type == CUDA_R_32F) return CUDA_R_16BF;
  return is_fp8(d.type) ? c.type : d.type;
}

}  // namespace

void Attributes::put(int which, const void* value, size_t size) { std::memcpy(values_[which].data(), value, size); }

cublasStatus_t set_attribute(Operation& operation, cublasLtMatmulDescAttributes_t which, const void* value,
                             size_t size) {
  for (const Known& known : kKnown) {
    if (known.which != which) continue;
    if (value == nullptr || size != known.size) {
      fault(fmt::format("attribute {} of a product has {} bytes, not {}", int(which), known.size, size));
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (const std::string what = why_unknown(which, value); !what.empty()) {
      fault(fmt::format("{} of a product is not on paper", what));
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    operation.attributes.put(which, value, size);
    return CUBLAS_STATUS_SUCCESS;
  }
  fault(fmt::format("attribute {} of a product is not on paper", int(which)));
  return CUBLAS_STATUS_INVALID_VALUE;
}

bool Problem::is_fp8() const { return paper::is_fp8(a.type) || paper::is_fp8(b.type); }

Problem problem_of(const Operation& operation, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const Attributes& set = operation.attributes;
  const auto pointer = [&](int which) { return set.get<void*>(which, nullptr); };
  const auto scale = [&](int which) { return static_cast<const float*>(pointer(which)); };
  const auto type = [&](int which, cudaDataType otherwise) {
    const auto value = set.get<int32_t>(which, kNotSet);
    return value == kNotSet ? otherwise : static_cast<cudaDataType>(value);
  };
  Problem problem{.compute = operation.compute, .scale_type = operation.scale_type, .a = a, .b = b, .c = c, .d = d};
  problem.a_turned = set.get<int32_t>(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) != CUBLAS_OP_N;
  problem.b_turned = set.get<int32_t>(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) != CUBLAS_OP_N;
  problem.depth = problem.a_turned ? a.rows : a.cols;
  problem.scalars_on_device =
      set.get<int32_t>(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_HOST) != CUBLASLT_POINTER_MODE_HOST;
  problem.epilogue = set.get<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  problem.bias = pointer(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  problem.bias_type = type(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, usual_bias_type(a, c, d));
  problem.bias_step = set.get<int64_t>(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, 0);
  problem.aux = pointer(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  problem.aux_layout = {.type = type(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, d.type),
                        .rows = d.rows,
                        .cols = d.cols,
                        .stride = set.get<int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0),
                        .count = d.count,
                        .step = set.get<int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 0)};
  problem.scale_a = scale(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
  problem.scale_b = scale(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
  problem.scale_c = scale(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER);
  problem.scale_d = scale(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER);
  problem.amax = static_cast<float*>(pointer(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER));
  return problem;
}

}  // namespace gradmill::paper
