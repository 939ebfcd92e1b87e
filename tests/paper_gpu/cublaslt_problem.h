// SPDX-License-Identifier: Apache-2.0
// A GEMM as requested from the paper cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <string>

namespace gradmill::paper {

// Column-major. In a batch, each matrix begins `step` elements after the previous one.
struct Layout {
  cudaDataType type = CUDA_R_32F;
  uint64_t rows = 0, cols = 0;
  int64_t stride = 0;  // from one column to the next
  int32_t count = 1;
  int64_t step = 0;
};

// The attributes that were set in a descriptor: bytes by attribute number.
class Attributes {
 public:
  template <class Value>
  Value get(int which, Value otherwise) const {
    const auto found = values_.find(which);
    return found == values_.end() ? otherwise : std::bit_cast<Value>(first<sizeof(Value)>(found->second));
  }
  // `size` must be at most 8.
  void put(int which, const void* value, size_t size);

 private:
  using Bytes = std::array<std::byte, 8>;
  template <size_t N>
  static std::array<std::byte, N> first(const Bytes& bytes) {
    std::array<std::byte, N> some;
    std::copy_n(bytes.begin(), N, some.begin());
    return some;
  }
  std::map<int, Bytes> values_;
};

// The object that a cublasLtMatmulDesc_t points to.
struct Operation {
  cublasComputeType_t compute;
  cudaDataType scale_type;
  Attributes attributes;
};
// Like the library's function. An attribute or value that the paper GPU does not support is a fault.
cublasStatus_t set_attribute(Operation& operation, cublasLtMatmulDescAttributes_t which, const void* value,
                             size_t size);

// d = scale_d · epilogue(alpha · scale_a · scale_b · op(a) · op(b) + beta · scale_c · c + bias). A scale is 1 if its
// pointer is null.
struct Problem {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType scale_type = CUDA_R_32F;
  Layout a{}, b{}, c{}, d{};
  bool a_turned = false, b_turned = false;
  uint64_t depth = 0;
  bool scalars_on_device = false;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;  // one element per row of d
  cudaDataType bias_type = CUDA_R_32F;
  int64_t bias_step = 0;  // for a batch
  void* aux = nullptr;
  Layout aux_layout{};
  const float *scale_a = nullptr, *scale_b = nullptr, *scale_c = nullptr, *scale_d = nullptr;
  float* amax = nullptr;  // of d before scale_d is applied

  bool adds_bias() const { return epilogue & CUBLASLT_EPILOGUE_BIAS; }
  bool writes_aux() const { return (epilogue & CUBLASLT_EPILOGUE_GELU_AUX) == CUBLASLT_EPILOGUE_GELU_AUX; }
  bool gelu() const { return epilogue & CUBLASLT_EPILOGUE_GELU; }
  bool gelu_gradient() const { return epilogue == CUBLASLT_EPILOGUE_DGELU; }
  bool has_aux() const { return writes_aux() || gelu_gradient(); }
  bool is_fp8() const;  // whether its operands are FP8
};
Problem problem_of(const Operation& operation, const Layout& a, const Layout& b, const Layout& c, const Layout& d);

// Why the GEMM is invalid on any GPU, or not supported by the paper GPU; this is the caller's fault. Empty if there is
// no problem.
std::string why_wrong(const Problem& problem);

// In bytes: the alignments promised for the addresses of the matrices.
struct Alignments {
  uint32_t a = 256, b = 256, c = 256, d = 256;
};
// Why the library does not support the GEMM on GPUs of this compute capability. This is a valid answer, not a fault.
struct Refusal {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  std::string reason;
};
Refusal why_refused(const Problem& problem, const Alignments& promised, int compute_capability);

}  // namespace gradmill::paper
