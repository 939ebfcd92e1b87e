// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

#include <cmath>

#include "ops/bias_grad.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kRows = 67, kCols = 517;  // multiples of no tile size; several tasks
constexpr Activation kKinds[] = {Activation::gelu_erf, Activation::gelu_tanh, Activation::swiglu, Activation::geglu_erf,
                                 Activation::geglu_tanh};

double exact(Activation kind, double x) {
  switch (kind) {
    case Activation::gelu_erf:
    case Activation::geglu_erf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
    case Activation::geglu_tanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::swiglu:
      return x / (1 + std::exp(-x));
  }
  return NAN;
}

struct Problem {
  ActivationArgs forward;
  ActivationGradArgs backward;
};

class ActivationTest : public OpTest {
 protected:
  Problem make(Activation kind, DType type, int64_t rows = kRows, int64_t cols = kCols) {
    const int64_t width = is_gated(kind) ? 2 * cols : cols;
    Problem p;
    p.forward = {.kind = kind,
                 .x = upload(random_values(rows * width, 1, 4, dtype()), {rows, width}, type),
                 .y = Operand(tensor({rows, cols}, type))};
    p.backward = {.kind = kind,
                  .x = p.forward.x,
                  .dy = upload(random_values(rows * cols, 2, 1, dtype()), {rows, cols}, type),
                  .dx = tensor({rows, width}, type)};
    return p;
  }

  // The value at each x; `up` is 1 for gated kinds.
  std::vector<float> values(Activation kind, const std::vector<float>& x) {
    const auto count = static_cast<int64_t>(x.size());
    std::vector<float> row = x;
    if (is_gated(kind)) row.resize(2 * x.size(), 1.0f);
    const TensorView y = tensor({1, count}, DType::fp32);
    const TensorView gate_up = upload(row, {1, static_cast<int64_t>(row.size())}, DType::fp32);
    activation_forward(ctx_, {.kind = kind, .x = gate_up, .y = Operand(y)});
    return download(y);
  }
};

// A slope crosses zero. There only its absolute error is small, in units of fp32 at the largest |dy * up|.
void expect_slopes(const std::vector<float>& actual, const std::vector<float>& expected, DType dtype) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const float bound = 2 * epsilon_of(dtype) * std::fabs(expected[i]) + 8e-6f;
    ASSERT_TRUE(std::fabs(actual[i] - expected[i]) <= bound)
        << "dx[" << i << "] is " << actual[i] << ", expected " << expected[i];
  }
}

TEST_P(ActivationTest, MatchesFp32) {
  for (Activation kind : kKinds) {
    for (auto [rows, cols] : {std::pair<int64_t, int64_t>{kRows, kCols}, {kRows, 520}, {3, 1032}, {1, 2}}) {
      const ArenaScope scope(ctx_.persistent);
      const Problem narrow = make(kind, dtype(), rows, cols), wide = make(kind, DType::fp32, rows, cols);
      activation_forward(ctx_, narrow.forward);
      activation_backward(ctx_, narrow.backward);
      activation_forward(reference_, wide.forward);
      activation_backward(reference_, wide.backward);
      const float ulps = on_gpu() && dtype() == DType::fp32 ? 8 : 1;
      expect_within_ulps(download(narrow.forward.y.plain), download(wide.forward.y.plain), dtype(), ulps, "y");
      if (on_gpu()) {
        expect_slopes(download(narrow.backward.dx.plain), download(wide.backward.dx.plain), dtype());
      } else {
        expect_within_ulps(download(narrow.backward.dx.plain), download(wide.backward.dx.plain), dtype(), 1, "dx");
      }
    }
  }
}

TEST_P(ActivationTest, BackwardInPlace) {
  for (Activation kind : kKinds) {
    const ArenaScope scope(ctx_.persistent);
    const Problem p = make(kind, dtype(), kRows, kind == Activation::swiglu ? 520 : kCols);
    activation_backward(ctx_, p.backward);
    const std::vector<float> expected = download(p.backward.dx.plain);
    if (!is_gated(kind)) {
      ActivationGradArgs over_dy = p.backward;
      over_dy.dx = over_dy.dy = upload(download(p.backward.dy), p.backward.dy.shape, dtype());
      activation_backward(ctx_, over_dy);
      expect_same_bits(download(over_dy.dx.plain), expected, "dx over dy");
    }
    ActivationGradArgs over_x = p.backward;
    over_x.dx = over_x.x;
    activation_backward(ctx_, over_x);
    expect_same_bits(download(over_x.dx.plain), expected, "dx over x");
  }
}

// The recomputed output and the column sums of dx must have the bits of the separate ops. 3000 rows are several chunks.
// dx overwrites x, as in training.
TEST_P(ActivationTest, BackwardGivesOutputAndBias) {
  for (Activation kind : kKinds) {
    for (auto [rows, cols] :
         {std::pair<int64_t, int64_t>{kRows, kCols}, {kRows, 520}, {3000, 72}, {3000, 19}, {1, 2}}) {
      for (bool with_output : {false, true}) {
        const ArenaScope scope(ctx_.persistent);
        const Problem p = make(kind, dtype(), rows, cols);
        const int64_t width = p.forward.x.cols();
        activation_forward(ctx_, p.forward);
        activation_backward(ctx_, p.backward);
        const std::vector<float> old = random_values(width, 3);
        const TensorView dbias = upload(old, {width}, DType::fp32);
        bias_grad(ctx_, {.dy = p.backward.dx.plain, .dbias = dbias, .beta = 0.5f});

        ActivationGradArgs fused = p.backward;
        fused.dx = fused.x;
        if (with_output) fused.y = Operand(tensor({rows, cols}, dtype()));
        fused.dbias = upload(old, {width}, DType::fp32);
        fused.bias_beta = 0.5f;
        activation_backward(ctx_, fused);
        expect_same_bits(download(fused.dx.plain), download(p.backward.dx.plain), "dx");
        expect_same_bits(download(fused.dbias), download(dbias), "dbias");
        if (with_output) expect_same_bits(download(fused.y.plain), download(p.forward.y.plain), "y");
      }
    }
  }
}

TEST_P(ActivationTest, BackwardGivesOutputAlone) {
  for (Activation kind : kKinds) {
    for (int64_t cols : {kCols, int64_t{520}}) {
      const ArenaScope scope(ctx_.persistent);
      const Problem p = make(kind, dtype(), kRows, cols);
      activation_forward(ctx_, p.forward);
      activation_backward(ctx_, p.backward);
      ActivationGradArgs fused = p.backward;
      fused.dx = fused.x;
      fused.y = Operand(tensor({kRows, cols}, dtype()));
      activation_backward(ctx_, fused);
      expect_same_bits(download(fused.dx.plain), download(p.backward.dx.plain), "dx");
      expect_same_bits(download(fused.y.plain), download(p.forward.y.plain), "y");
    }
  }
}

TEST_P(ActivationTest, OnPaperScratchIsAsInTheRun) {
  Problem p = make(Activation::gelu_tanh, dtype(), 3000, 72);
  p.backward.dbias = tensor({72}, DType::fp32);
  activation_backward(ctx_, p.backward);
  ExecContext paper;
  paper.device = ctx_.device;
  paper.dry = true;
  activation_backward(paper, p.backward);
  EXPECT_EQ(paper.scratch.high_water(), ctx_.scratch.high_water());
}

TEST_P(ActivationTest, StridedRowsLeaveTheirNeighboursAlone) {
  constexpr int64_t kNarrow = 19;
  for (Activation kind : kKinds) {
    const Problem dense = make(kind, dtype(), 5, kNarrow);
    activation_forward(ctx_, dense.forward);
    ActivationArgs strided = dense.forward;
    const TensorView around = upload(std::vector<float>(5 * 40, 7.0f), {5, 40}, dtype());
    strided.y = Operand(around.slice_cols(11, 11 + kNarrow));
    activation_forward(ctx_, strided);
    expect_same_bits(download(strided.y.plain), download(dense.forward.y.plain), "y");
    expect_same_bits(download(around.slice_cols(0, 11)), std::vector<float>(5 * 11, 7.0f), "left of y");
    expect_same_bits(download(around.slice_cols(30, 40)), std::vector<float>(5 * 10, 7.0f), "right of y");
  }
}

TEST_P(ActivationTest, AlignmentDoesNotChangeBits) {
  for (Activation kind : kKinds) {
    const Problem dense = make(kind, dtype(), 5, 24);
    activation_forward(ctx_, dense.forward);
    for (int64_t begin : {8, 11}) {
      ActivationArgs strided = dense.forward;
      strided.y = Operand(tensor({5, 40}, dtype()).slice_cols(begin, begin + 24));
      activation_forward(ctx_, strided);
      expect_same_bits(download(strided.y.plain), download(dense.forward.y.plain), "y");
    }
  }
}

TEST_P(ActivationTest, BitsDoNotDependOnThreads) {
  const Problem p = make(Activation::geglu_erf, dtype());
  std::vector<float> y, dx;
  for (int threads : {1, 2, 3, 7}) {
    use_threads(threads);
    activation_forward(ctx_, p.forward);
    activation_backward(ctx_, p.backward);
    if (threads == 1) {
      y = download(p.forward.y.plain);
      dx = download(p.backward.dx.plain);
    }
    expect_same_bits(download(p.forward.y.plain), y, "y");
    expect_same_bits(download(p.backward.dx.plain), dx, "dx");
  }
}

TEST_P(ActivationTest, OnPaperNothingRuns) {
  ExecContext paper;
  paper.dry = true;
  const TensorView x(nullptr, dtype(), {4, 6}), y(nullptr, dtype(), {4, 3});
  activation_forward(paper, {.kind = Activation::swiglu, .x = x, .y = Operand(y)});
  activation_backward(paper, {.kind = Activation::swiglu, .x = x, .dy = y, .dx = x});
  EXPECT_EQ(paper.scratch.high_water(), 0u);
}

class ActivationFp32 : public ActivationTest {};

TEST_P(ActivationFp32, CentralDifferences) {
  for (Activation kind : kKinds) {
    const Problem p = make(kind, DType::fp32, 7, 37);
    activation_backward(ctx_, p.backward);
    const GradientCheck check{.forward = [&] { activation_forward(ctx_, p.forward); },
                              .output = p.forward.y.plain,
                              .doutput = download(p.backward.dy)};
    expect_gradient(check, p.forward.x, download(p.backward.dx.plain), "x");
  }
}

// Compared with double precision, relative to the value. The exponent of the tanh form is rounded, which costs more the
// larger it is.
struct Accuracy {
  Activation kind;
  float lowest, ulps;
};
constexpr Accuracy kAccuracies[] = {{Activation::gelu_erf, -12, 6},
                                    {Activation::gelu_erf, -7, 3.5f},
                                    {Activation::gelu_tanh, -5, 20},
                                    {Activation::gelu_tanh, -1, 5},
                                    {Activation::swiglu, -80, 3}};

TEST_P(ActivationFp32, AccurateOverTheWholeRange) {
  for (const Accuracy& accuracy : kAccuracies) {
    std::vector<float> x, expected;
    for (float value = accuracy.lowest; value < 30; value += 0.0037f) x.push_back(value);
    for (float value = 1; value > 1e-30f; value *= 0.37f) x.insert(x.end(), {value, -value});
    for (float value : x) expected.push_back(static_cast<float>(exact(accuracy.kind, value)));
    expect_within_ulps(values(accuracy.kind, x), expected, DType::fp32, accuracy.ulps + (on_gpu() ? 2 : 0),
                       "kind " + std::to_string(int(accuracy.kind)));
  }
}

TEST_P(ActivationFp32, FarFromZero) {
  const std::vector<float> x = {-5.5f, -8,    -12, -14, -15, -20, -90,  -180, -300,
                                -1000, -1e6f, 20,  90,  180, 300, 1000, 1e6f, 0};
  for (Activation kind : kKinds) {
    const std::vector<float> y = values(kind, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = exact(kind, x[i]);
      EXPECT_NEAR(y[i], expected, 5e-6 * std::fabs(expected) + 1e-37) << "kind " << int(kind) << " at " << x[i];
    }
    EXPECT_TRUE(std::isnan(values(kind, {NAN})[0]));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ActivationFp32, testing::ValuesIn(fp32_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, ActivationTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
