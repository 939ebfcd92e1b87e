// SPDX-License-Identifier: Apache-2.0
#include "ops/norm/norm_fixture.h"

namespace gradmill::test {
namespace {

TEST_P(NormTest, MatchesFp32) {
  const bool approximate = on_gpu() && dtype() == DType::fp32;  // sums in another order than on the CPU
  for (NormKind kind : {NormKind::rms, NormKind::layer}) {
    for (const Shape& shape : kShapes) {
      const ArenaScope scope(ctx_.persistent);
      Problem narrow = make(kind, dtype(), shape), wide = make(kind, DType::fp32, shape);
      // The narrow sum is rounded before the norm reads it, so the reference gets the same sum.
      norm_forward(ctx_, narrow.forward);
      wide.forward.x = upload(download(narrow.forward.sum), shape, DType::fp32);
      wide.forward.delta = wide.forward.sum = {};
      wide.backward.sum = wide.forward.x;
      norm_forward(reference_, wide.forward);
      const std::vector<float> y = download(narrow.forward.y.plain), expected = download(wide.forward.y.plain);
      if (on_gpu() && kind == NormKind::layer) {  // the bias may cancel
        expect_reduction(y, expected, dtype(), 1, 4, "y");
        expect_reduction(download(narrow.forward.mean), download(wide.forward.mean), DType::fp32, shape[1], 2, "mean");
      } else {
        expect_within_ulps(y, expected, dtype(), approximate ? 8 : 2, "y");
      }
      expect_reduction(download(narrow.forward.rstd), download(wide.forward.rstd), DType::fp32, shape[1], 2, "rstd");

      narrow.backward.dresidual = narrow.forward.x;
      wide.backward.dresidual = upload(download(narrow.forward.x), shape, DType::fp32);
      norm_backward(ctx_, narrow.backward);
      norm_backward(reference_, wide.backward);
      expect_reduction(download(narrow.backward.dx), download(wide.backward.dx), dtype(), 1, approximate ? 8 : 2, "dx");
      expect_reduction(download(narrow.backward.dweight), download(wide.backward.dweight), DType::fp32,
                       shape[0] + shape[1], 2, "dweight");
      if (kind == NormKind::rms) continue;
      expect_reduction(download(narrow.backward.dbias), download(wide.backward.dbias), DType::fp32, shape[0], 2,
                       "dbias");
    }
  }
}

// The sum is computed in fp32 and rounded once.
TEST_P(NormTest, SumIsRounded) {
  for (const Shape& shape : {Shape{kRows, kCols}, Shape{21, 768}}) {
    Problem s = make(NormKind::rms, dtype(), shape);
    norm_forward(ctx_, s.forward);
    std::vector<float> sum = download(s.forward.x);
    const std::vector<float> delta = download(s.forward.delta);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += delta[i];
    expect_same_bits(download(s.forward.sum), download(upload(sum, shape, dtype())), "sum");
  }
}

TEST_P(NormTest, InPlace) {
  for (const Shape& shape : {Shape{kRows, kCols}, Shape{21, 768}, Shape{kRows, 1024}}) {
    const ArenaScope scope(ctx_.persistent);
    Problem s = make(NormKind::layer, dtype(), shape);
    norm_forward(ctx_, s.forward);
    s.backward.dresidual = upload(download(s.forward.delta), shape, dtype());
    norm_backward(ctx_, s.backward);
    const std::vector<float> y = download(s.forward.y.plain), sum = download(s.forward.sum);
    const std::vector<float> dx = download(s.backward.dx);

    NormGradArgs over_dy = s.backward, over_residual = s.backward, over_sum = s.backward;
    over_sum.dresidual = upload(download(s.backward.dresidual), shape, dtype());
    over_sum.dx = over_sum.sum = upload(sum, shape, dtype());
    norm_backward(ctx_, over_sum);
    expect_same_bits(download(over_sum.dx), dx, "dx over the sum");
    over_dy.dx = over_dy.dy = upload(download(s.backward.dy), shape, dtype());
    norm_backward(ctx_, over_dy);
    expect_same_bits(download(over_dy.dx), dx, "dx over dy");
    over_residual.dx = over_residual.dresidual;
    norm_backward(ctx_, over_residual);
    expect_same_bits(download(over_residual.dx), dx, "dx over dresidual");

    NormArgs over_x = s.forward;
    over_x.sum = over_x.x;
    norm_forward(ctx_, over_x);
    expect_same_bits(download(over_x.sum), sum, "sum over x");
    expect_same_bits(download(over_x.y.plain), y, "y");
  }
}

TEST_P(NormTest, StridedRowsLeaveTheirNeighboursAlone) {
  for (int64_t begin : {16, 3}) {  // aligned and unaligned
    Problem s = make(NormKind::rms, dtype(), {5, 64});
    norm_forward(ctx_, s.forward);
    NormArgs strided = s.forward;
    const TensorView around = upload(std::vector<float>(5 * 96, 7.0f), {5, 96}, dtype());
    strided.y = Operand(around.slice_cols(begin, begin + 64));
    norm_forward(ctx_, strided);
    const int64_t right = 96 - begin - 64;
    expect_within_ulps(download(strided.y.plain), download(s.forward.y.plain), dtype(), dtype() == DType::fp32 ? 8 : 1,
                       "y");
    expect_same_bits(download(around.slice_cols(0, begin)), std::vector<float>(static_cast<size_t>(5 * begin), 7.0f),
                     "left of y");
    expect_same_bits(download(around.slice_cols(begin + 64, 96)),
                     std::vector<float>(static_cast<size_t>(5 * right), 7.0f), "right of y");
  }
}

// A block that has many rows loads the next ones while it processes some. Tested in place and with a ragged end.
TEST_P(NormTest, RowsOfABlockFollowEachOther) {
  for (NormKind kind : {NormKind::rms, NormKind::layer}) {
    for (const Shape& shape : {Shape{101, 384}, Shape{101, 768}, Shape{101, 896}, Shape{97, 1024}, Shape{43, 2048}}) {
      const ArenaScope scope(ctx_.persistent);
      Problem s = make(kind, dtype(), shape);
      norm_forward(ctx_, s.forward);
      s.backward.dresidual = s.forward.x;
      norm_backward(ctx_, s.backward);
      const std::vector<float> dx = download(s.backward.dx), dweight = download(s.backward.dweight);

      NormGradArgs again = s.backward;
      again.dx = again.dy;
      again.dweight = tensor({shape[1]}, DType::fp32);
      again.y = Operand(tensor(shape, dtype()));
      again.bias = s.forward.bias;
      const auto units = ctx_.device.num_units;
      ctx_.device.num_units = 1;
      norm_backward(ctx_, again);
      ctx_.device.num_units = units;
      expect_same_bits(download(again.dx), dx, "dx over dy");
      expect_same_bits(download(again.y.plain), download(s.forward.y.plain), "y");
      expect_reduction(download(again.dweight), dweight, DType::fp32, shape[0], 2, "dweight");
    }
  }
}

// A LayerNorm without biases equals one whose biases are 0. A GPU's kernel for it processes rows of 97 to 128 packs
// with one warp, where registers would not suffice for the sums of biases; there a row is summed in another order.
TEST_P(NormTest, LayerWithoutBias) {
  for (const Shape& each : kShapes) {
    const ArenaScope scope(ctx_.persistent);
    const Shape shape = {std::min<int64_t>(each[0], 5), each[1]};
    const int64_t packs = shape[1] * int64_t(size_of(dtype())) / 16;
    const auto expect_same = [&](const TensorView& actual, const TensorView& expected, const std::string& what) {
      if (packs <= 96 || packs > 128) return expect_same_bits(download(actual), download(expected), what);
      expect_reduction(download(actual), download(expected), actual.dtype, 1, 8, what);
    };
    Problem s = make(NormKind::layer, dtype(), shape);
    s.forward.bias = upload(std::vector<float>(static_cast<size_t>(shape[1]), 0.0f), {shape[1]}, dtype());
    norm_forward(ctx_, s.forward);
    s.backward.dresidual = s.forward.x;
    norm_backward(ctx_, s.backward);
    NormArgs forward = s.forward;
    forward.bias = {};
    forward.y = Operand(tensor(shape, dtype()));
    norm_forward(ctx_, forward);
    expect_within_ulps(download(forward.y.plain), download(s.forward.y.plain), dtype(), 0, "y");
    NormGradArgs backward = s.backward;
    backward.dbias = {};
    backward.dx = tensor(shape, dtype());
    backward.dweight = tensor({shape[1]}, DType::fp32);
    norm_backward(ctx_, backward);
    expect_same(backward.dx, s.backward.dx, "dx");
    expect_same(backward.dweight, s.backward.dweight, "dweight");
    backward.y = Operand(tensor(shape, dtype()));
    norm_backward(ctx_, backward);
    expect_same(backward.dx, s.backward.dx, "dx beside y");
    expect_same(backward.dweight, s.backward.dweight, "dweight beside y");
    expect_same_bits(download(backward.y.plain), download(forward.y.plain), "y again");
  }
}

TEST_P(NormTest, FrozenWeights) {
  Problem s = make(NormKind::layer, dtype(), {kRows, 64});
  norm_forward(ctx_, s.forward);
  norm_backward(ctx_, s.backward);
  const std::vector<float> dx = download(s.backward.dx);
  s.backward.dweight = s.backward.dbias = {};
  norm_backward(ctx_, s.backward);
  expect_same_bits(download(s.backward.dx), dx, "dx");
}

TEST_P(NormTest, OnPaperScratchIsAsInTheRun) {
  Problem s = make(NormKind::rms, dtype(), {1100, 64});
  norm_forward(ctx_, s.forward);
  norm_backward(ctx_, s.backward);
  ExecContext paper;
  paper.device = ctx_.device;
  paper.dry = true;
  norm_backward(paper, s.backward);
  EXPECT_EQ(paper.scratch.high_water(), ctx_.scratch.high_water());
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
  for (NormKind kind : {NormKind::rms, NormKind::layer}) {
    for (const Shape& shape :
         {Shape{kRows, kCols}, Shape{kRows, 384}, Shape{21, 768}, Shape{21, 896}, Shape{19, 4096}}) {
      const ArenaScope scope(ctx_.persistent);
      Problem s = make(kind, dtype(), shape);
      norm_forward(ctx_, s.forward);
      NormArgs again = s.forward;
      again.x = s.forward.sum;
      again.y = Operand(tensor(shape, dtype()));
      norm_rebuild(ctx_, again);
      expect_same_bits(download(again.y.plain), download(s.forward.y.plain), "y");
    }
  }
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
