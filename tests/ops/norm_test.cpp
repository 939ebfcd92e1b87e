// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kRows = 37, kCols = 45;  // not multiples of anything

struct Problem {
  NormArgs forward;
  NormGradArgs backward;
};

class NormTest : public OpTest {
 protected:
  // The same values for every dtype: rounded to the test's dtype, then stored as `type`.
  Problem make(NormKind kind, DType type) {
    const auto matrix = [&](uint32_t seed) {
      return upload(random_values(kRows * kCols, seed, 2, dtype()), {kRows, kCols}, type);
    };
    const auto vector = [&](uint32_t seed) { return upload(random_values(kCols, seed, 1, dtype()), {kCols}, type); };
    const bool layer = kind == NormKind::layer;
    Problem s;
    s.forward = {.kind = kind,
                 .x = matrix(1),
                 .delta = matrix(2),
                 .weight = vector(3),
                 .bias = layer ? vector(4) : TensorView{},
                 .sum = tensor({kRows, kCols}, type),
                 .mean = layer ? tensor({kRows}, DType::fp32) : TensorView{},
                 .rstd = tensor({kRows}, DType::fp32),
                 .y = Operand(tensor({kRows, kCols}, type)),
                 .eps = 1e-5f,
                 .weight_offset = layer ? 0.0f : 1.0f};
    s.backward = {.kind = kind,
                  .sum = s.forward.sum,
                  .mean = s.forward.mean,
                  .rstd = s.forward.rstd,
                  .weight = s.forward.weight,
                  .dy = matrix(5),
                  .dresidual = {},
                  .dx = tensor({kRows, kCols}, type),
                  .dweight = tensor({kCols}, DType::fp32),
                  .dbias = layer ? tensor({kCols}, DType::fp32) : TensorView{},
                  .weight_offset = s.forward.weight_offset};
    return s;
  }
};

TEST_P(NormTest, MatchesFp32) {
  for (NormKind kind : {NormKind::rms, NormKind::layer}) {
    Problem narrow = make(kind, dtype()), wide = make(kind, DType::fp32);
    // The narrow sum is rounded before the norm sees it: give the reference the same sum.
    norm_forward(ctx_, narrow.forward);
    const std::vector<float> sum = download(narrow.forward.sum);
    wide.forward.x = upload(sum, {kRows, kCols}, DType::fp32);
    wide.forward.delta = wide.forward.sum = {};
    wide.backward.sum = wide.forward.x;
    norm_forward(ctx_, wide.forward);
    expect_within_ulps(download(narrow.forward.y.plain), download(wide.forward.y.plain), dtype(), 2, "y");

    narrow.backward.dresidual = narrow.forward.x;
    wide.backward.dresidual = upload(download(narrow.forward.x), {kRows, kCols}, DType::fp32);
    norm_backward(ctx_, narrow.backward);
    norm_backward(ctx_, wide.backward);
    expect_reduction(download(narrow.backward.dx), download(wide.backward.dx), dtype(), 1, 2, "dx");
    expect_reduction(download(narrow.backward.dweight), download(wide.backward.dweight), DType::fp32, kRows, 2,
                     "dweight");
  }
}

class NormGradients : public NormTest {};
TEST_P(NormGradients, CentralDifferences) {
  for (NormKind kind : {NormKind::rms, NormKind::layer}) {
    Problem s = make(kind, DType::fp32);
    norm_forward(ctx_, s.forward);
    norm_backward(ctx_, s.backward);
    const GradientCheck check{.forward = [&] { norm_forward(ctx_, s.forward); },
                              .output = s.forward.y.plain,
                              .doutput = download(s.backward.dy)};
    expect_gradient(check, s.forward.x, download(s.backward.dx), "x");
    expect_gradient(check, s.forward.delta, download(s.backward.dx), "delta");
    expect_gradient(check, s.forward.weight, download(s.backward.dweight), "weight");
    if (kind == NormKind::layer) expect_gradient(check, s.forward.bias, download(s.backward.dbias), "bias");
  }
}

TEST_P(NormTest, RebuildHasTheBitsOfTheForward) {
  Problem s = make(NormKind::layer, dtype());
  norm_forward(ctx_, s.forward);
  NormArgs again = s.forward;
  again.x = s.forward.sum;
  again.y = Operand(tensor({kRows, kCols}, dtype()));
  norm_rebuild(ctx_, again);
  expect_same_bits(download(again.y.plain), download(s.forward.y.plain), "y");
}

TEST_P(NormTest, BetaAddsToTheOldGradient) {
  Problem s = make(NormKind::layer, dtype());
  norm_forward(ctx_, s.forward);
  norm_backward(ctx_, s.backward);
  std::vector<float> twice = download(s.backward.dweight);
  for (float& value : twice) value *= 2;
  s.backward.weight_beta = s.backward.bias_beta = 1;
  norm_backward(ctx_, s.backward);
  expect_within_ulps(download(s.backward.dweight), twice, DType::fp32, 2, "dweight");
}

TEST_P(NormTest, BitsDoNotDependOnThreads) {
  Problem s = make(NormKind::layer, dtype());
  std::vector<float> dx, dweight;
  for (int threads : {1, 2, 3, 7}) {
    use_threads(threads);
    norm_forward(ctx_, s.forward);
    norm_backward(ctx_, s.backward);
    if (threads == 1) {
      dx = download(s.backward.dx);
      dweight = download(s.backward.dweight);
    }
    expect_same_bits(download(s.backward.dx), dx, "dx");
    expect_same_bits(download(s.backward.dweight), dweight, "dweight");
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, NormGradients, testing::ValuesIn(fp32_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, NormTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
