// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/cublaslt_product.h"

#include <cmath>
#include <vector>

#include "paper_gpu/cublaslt_multiply.h"

namespace gradmill::paper {
namespace {

// The library's GELU is the tanh form.
constexpr float kRootTwoOverPi = 0.7978845608028654f, kCubic = 0.044715f;

float gelu(float x) { return 0.5f * x * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x))); }

float gelu_slope(float x) {
  const float t = std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCubic * x * x);
}

struct Scalars {
  float product;  // alpha and the scales of a and b
  float sum;      // beta and the scale of c
  float result;   // the scale of d
};

// Reads device memory now. False if it does not exist.
bool read(const Problem& problem, const Operands& operands, Scalars& scalars) {
  bool good = true;
  const auto value = [&](const float* scalar, float otherwise, const char* what) {
    if (scalar == nullptr) return otherwise;
    if (expect_scalar(scalar, what)) return *scalar;
    good = false;
    return otherwise;
  };
  const float alpha = value(operands.alpha_on_device, operands.alpha, "a product's alpha");
  const float beta = value(operands.beta_on_device, operands.beta, "a product's beta");
  const float a = value(problem.scale_a, 1, "the scale of a product's first matrix");
  const float b = value(problem.scale_b, 1, "the scale of a product's second matrix");
  const float c = value(problem.scale_c, 1, "the scale of a product's sum");
  const float d = value(problem.scale_d, 1, "the scale of a product's result");
  scalars = {alpha * a * b, beta == 0 ? 0 : beta * c, d};
  return good;
}

// An fp32 matrix whose lines are the rows of op(a) or the columns of op(b).
DenseMatrix dense(const Problem& problem, const void* data, const Layout& layout, int32_t item, bool lines_are_rows) {
  DenseMatrix matrix{.values = std::vector<float>(layout.rows * layout.cols),
                     .line_step = lines_are_rows ? 1 : layout.rows,
                     .depth_step = lines_are_rows ? layout.rows : 1};
  for (uint64_t col = 0; col < layout.cols; ++col) {
    float* const to = matrix.values.data() + col * layout.rows;
    to_floats(layout.type, column_of(data, layout, item, col), layout.rows, to);
    if (problem.compute == CUBLAS_COMPUTE_32F_FAST_TF32) round_to_tf32(to, layout.rows);
  }
  return matrix;
}

// Converts sums to results, column by column.
class Epilogue {
 public:
  Epilogue(const Problem& problem, const Operands& operands, const Scalars& scalars)
      : problem_(problem), operands_(operands), scalars_(scalars), rows_(problem.d.rows), other_(rows_), bias_(rows_) {}

  void begin(int32_t item) {
    item_ = item;
    if (!problem_.adds_bias()) return;
    const auto* const first = static_cast<const std::byte*>(problem_.bias);
    const int64_t bytes = item * problem_.bias_step * static_cast<int64_t>(size_of(problem_.bias_type));
    to_floats(problem_.bias_type, first + bytes, rows_, bias_.data());
  }
  void finish(float* values, uint64_t col) {
    for (size_t i = 0; i < rows_; ++i) values[i] *= scalars_.product;
    if (scalars_.sum != 0) {
      to_floats(problem_.c.type, column_of(operands_.c, problem_.c, item_, col), rows_, other_.data());
      for (size_t i = 0; i < rows_; ++i) values[i] += scalars_.sum * other_[i];
    }
    if (problem_.adds_bias()) {
      for (size_t i = 0; i < rows_; ++i) values[i] += bias_[i];
    }
    activate(values, col);
    if (problem_.amax != nullptr) {
      for (size_t i = 0; i < rows_; ++i) amax_ = std::fmax(amax_, std::fabs(values[i]));
    }
    if (problem_.scale_d != nullptr) {
      for (size_t i = 0; i < rows_; ++i) values[i] *= scalars_.result;
    }
    from_floats(problem_.d.type, values, rows_, column_of(operands_.d, problem_.d, item_, col));
  }
  float amax() const { return amax_; }

 private:
  void activate(float* values, uint64_t col) {
    const Layout& layout = problem_.aux_layout;
    if (problem_.writes_aux()) from_floats(layout.type, values, rows_, column_of(problem_.aux, layout, item_, col));
    if (problem_.gelu()) {
      for (size_t i = 0; i < rows_; ++i) values[i] = gelu(values[i]);
    }
    if (!problem_.gelu_gradient()) return;
    const void* const aux = problem_.aux;
    to_floats(layout.type, column_of(aux, layout, item_, col), rows_, other_.data());
    for (size_t i = 0; i < rows_; ++i) values[i] *= gelu_slope(other_[i]);
  }

  const Problem& problem_;
  const Operands& operands_;
  const Scalars& scalars_;
  const size_t rows_;
  std::vector<float> other_, bias_;
  int32_t item_ = 0;
  float amax_ = 0;
};

}  // namespace

void compute(const Problem& problem, const Operands& operands) {
  Scalars scalars{};
  if (!read(problem, operands, scalars) || !expect_matrices(problem, operands, scalars.sum != 0)) return;
  const size_t rows = problem.d.rows, cols = problem.d.cols;
  std::vector<float> sums(rows * cols);
  Epilogue epilogue(problem, operands, scalars);
  for (int32_t item = 0; item < problem.d.count; ++item) {
    const DenseMatrix a = dense(problem, operands.a, problem.a, item, !problem.a_turned);
    const DenseMatrix b = dense(problem, operands.b, problem.b, item, problem.b_turned);
    multiply(a, b, rows, cols, problem.depth, sums.data());
    epilogue.begin(item);
    for (uint64_t col = 0; col < cols; ++col) epilogue.finish(sums.data() + col * rows, col);
  }
  if (problem.amax != nullptr) *problem.amax = epilogue.amax();
  mark_results_written(problem, operands);
}

}  // namespace gradmill::paper
