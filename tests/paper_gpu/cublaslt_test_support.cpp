// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cublaslt_test_support.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace gradmill::paper {
namespace {

struct Shape {
  int mantissa, bias;
  uint32_t num_codes;  // without sign
  uint32_t num_finite;
};

Shape shape_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_16BF:
      return {7, 127, 0x8000, 0x7f80};
    case CUDA_R_16F:
      return {10, 15, 0x8000, 0x7c00};
    case CUDA_R_8F_E4M3:
      return {3, 7, 0x80, 0x7f};
    default:
      return {2, 15, 0x80, 0x7c};
  }
}

double decode(const Shape& shape, uint32_t code) {
  const auto exponent = static_cast<int>(code >> shape.mantissa);
  const double fraction = std::ldexp(code & ((1u << shape.mantissa) - 1), -shape.mantissa);
  return exponent == 0 ? std::ldexp(fraction, 1 - shape.bias) : std::ldexp(1 + fraction, exponent - shape.bias);
}

// The codes of the finite, non-negative values.
const std::map<double, uint32_t>& codes(cudaDataType type) {
  static std::map<int, std::map<double, uint32_t>> all;
  std::map<double, uint32_t>& ours = all[type];
  const Shape shape = shape_of(type);
  for (uint32_t code = static_cast<uint32_t>(ours.size()); code < shape.num_finite; ++code) {
    ours[decode(shape, code)] = code;
  }
  return ours;
}

uint32_t nearest_code(cudaDataType type, double magnitude) {
  const auto above = codes(type).lower_bound(magnitude);
  if (above == codes(type).end()) {
    // Infinity is at the position of the next code.
    const Shape shape = shape_of(type);
    const double last = decode(shape, shape.num_finite - 1), step = last - decode(shape, shape.num_finite - 2);
    const bool overflows = magnitude >= last + step / 2 && bytes_of(type) == 2;
    return overflows ? shape.num_finite : shape.num_finite - 1;
  }
  if (above == codes(type).begin()) return above->second;
  const auto below = std::prev(above);
  const double up = above->first - magnitude, down = magnitude - below->first;
  if (up != down) return up < down ? above->second : below->second;
  return above->second % 2 == 0 ? above->second : below->second;
}

}  // namespace

double decode(cudaDataType type, const void* element) {
  if (type == CUDA_R_32F) {
    float value;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  uint32_t bits = 0;
  std::memcpy(&bits, element, bytes_of(type));
  const Shape shape = shape_of(type);
  const uint32_t code = bits & (shape.num_codes - 1);
  double value = decode(shape, code);
  if (code >= shape.num_finite) value = type != CUDA_R_8F_E4M3 && code == shape.num_finite ? INFINITY : NAN;
  return bits & shape.num_codes ? -value : value;
}

double nearest(cudaDataType type, double value) {
  if (type == CUDA_R_32F) return static_cast<float>(value);
  if (std::isnan(value)) return value;
  const Shape shape = shape_of(type);
  const uint32_t code = nearest_code(type, std::fabs(value));
  return std::copysign(code == shape.num_finite ? INFINITY : decode(shape, code), value);
}

void encode(cudaDataType type, double value, void* element) {
  if (type == CUDA_R_32F) {
    const auto narrow = static_cast<float>(value);
    std::memcpy(element, &narrow, sizeof(narrow));
    return;
  }
  const Shape shape = shape_of(type);
  const uint32_t code = std::isnan(value) ? shape.num_codes - 1 : nearest_code(type, std::fabs(value));
  const uint32_t bits = code | (std::signbit(value) ? shape.num_codes : 0);
  std::memcpy(element, &bits, bytes_of(type));
}

void Matrix::set(int32_t item, int64_t row, int64_t col, double value) const {
  encode(type, value, at(item, row, col));
  mark_written(at(item, row, col), bytes_of(type));
}

void Matrix::fill(const std::function<double()>& next) const {
  for (int32_t item = 0; item < count; ++item) {
    for (int64_t col = 0; col < cols; ++col) {
      for (int64_t row = 0; row < rows; ++row) set(item, row, col, next());
    }
  }
}

Call::Call(const Matrix& a, bool turn_a, const Matrix& b, bool turn_b, const Matrix& c, const Matrix& d,
           cublasComputeType_t compute, cudaDataType scale_type)
    : a_(a), b_(b), c_(c), d_(d) {
  cublasLtCreate(&handle);
  cublasLtMatmulDescCreate(&operation_, compute, scale_type);
  set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{turn_a ? CUBLAS_OP_T : CUBLAS_OP_N});
  set(CUBLASLT_MATMUL_DESC_TRANSB, int32_t{turn_b ? CUBLAS_OP_T : CUBLAS_OP_N});
  const Matrix* const matrices[] = {&a, &b, &c, &d};
  for (size_t i = 0; i < 4; ++i) {
    const Matrix& each = *matrices[i];
    cublasLtMatrixLayoutCreate(&layouts_[i], each.type, static_cast<uint64_t>(each.rows),
                               static_cast<uint64_t>(each.cols), each.stride);
    cublasLtMatrixLayoutSetAttribute(layouts_[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &each.count, sizeof(each.count));
    cublasLtMatrixLayoutSetAttribute(layouts_[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &each.step,
                                     sizeof(each.step));
  }
  cublasLtMatmulPreferenceCreate(&preference_);
  promise(16);
}

Call::~Call() {
  cublasLtMatmulPreferenceDestroy(preference_);
  for (cublasLtMatrixLayout_t layout : layouts_) cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(operation_);
  cublasLtDestroy(handle);
}

void Call::set_bias(const Matrix& bias) {
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data());
  set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{bias.type});
  if (bias.count > 1) set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, bias.step);
}

void Call::set_aux(const Matrix& aux) {
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.data());
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux.stride);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, int32_t{aux.type});
  if (aux.count > 1) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, aux.step);
}

void Call::promise(uint32_t alignment) {
  for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    cublasLtMatmulPreferenceSetAttribute(preference_, which, &alignment, sizeof(alignment));
  }
}

cublasStatus_t Call::ask(size_t workspace_bytes) {
  const uint64_t bytes = workspace_bytes;
  cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes));
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, operation_, layouts_[0], layouts_[1], layouts_[2], layouts_[3], preference_, 1, &chosen, &found);
  EXPECT_EQ(found, status == CUBLAS_STATUS_SUCCESS ? 1 : 0);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  cublasLtMatmulHeuristicResult_t result{};
  EXPECT_EQ(cublasLtMatmulAlgoCheck(handle, operation_, layouts_[0], layouts_[1], layouts_[2], layouts_[3],
                                    &chosen.algo, &result),
            status);
  return status;
}

cublasStatus_t Call::enqueue(const float* alpha, const float* beta, const void* a, void* d, void* workspace,
                             size_t workspace_bytes) {
  const void* const c = &c_ == &d_ ? d : c_.data();
  return cublasLtMatmul(handle, operation_, alpha, a, layouts_[0], b_.data(), layouts_[1], beta, c, layouts_[2], d,
                        layouts_[3], &chosen.algo, workspace, workspace_bytes, stream);
}

cublasStatus_t Call::multiply(const float* alpha, const float* beta, const void* a, void* d, void* workspace,
                              size_t workspace_bytes) {
  const cublasStatus_t status = enqueue(alpha, beta, a, d, workspace, workspace_bytes);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return status;
}

cublasStatus_t Call::run(const float* alpha, const float* beta) {
  constexpr size_t kWorkspace = 256;
  const DeviceBytes workspace(kWorkspace);
  const cublasStatus_t status = ask(kWorkspace);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  return multiply(alpha, beta, a_.data(), d_.data(), workspace.data(), kWorkspace);
}

double dot(const Matrix& a, bool turn_a, const Matrix& b, bool turn_b, int32_t item, int64_t row, int64_t col) {
  double sum = 0;
  for (int64_t k = 0; k < (turn_a ? a.rows : a.cols); ++k) {
    sum += (turn_a ? a.value(item, k, row) : a.value(item, row, k)) *
           (turn_b ? b.value(item, col, k) : b.value(item, k, col));
  }
  return sum;
}

double gelu_reference(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

// Computed by a central difference.
double gelu_slope_reference(double x) {
  constexpr double kStep = 1e-5;
  return (gelu_reference(x + kStep) - gelu_reference(x - kStep)) / (2 * kStep);
}

void expect_result(const Matrix& d, const std::function<double(int32_t, int64_t, int64_t)>& expected,
                   double tolerance) {
  const auto address = [](const void* data) { return reinterpret_cast<uint64_t>(data); };
  int wrong = 0;
  for (int32_t item = 0; item < d.count; ++item) {
    for (int64_t col = 0; col < d.cols; ++col) {
      for (int64_t row = 0; row < d.rows; ++row) {
        ASSERT_EQ(why_not_read(address(d.at(item, row, col)), bytes_of(d.type)), "");
        const double is = d.value(item, row, col), should = expected(item, row, col);
        const double ideal = nearest(d.type, should);
        const bool good = is == ideal || std::fabs(is - should) <= tolerance * std::max(1.0, std::fabs(should));
        if (!good && ++wrong < 4) ADD_FAILURE() << item << ": " << row << ", " << col << ": " << is << " != " << ideal;
      }
      const bool last = item == d.count - 1 && col == d.cols - 1;
      if (d.stride == d.rows || d.step < d.stride || last) continue;
      EXPECT_NE(why_not_read(address(d.at(item, d.rows, col)), bytes_of(d.type)), "");
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace gradmill::paper
