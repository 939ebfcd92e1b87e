// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include "ops/bias_grad.h"
#include "ops/dropout.h"
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
  Problem make(NormKind kind, DType type, const Shape& shape = {kRows, kCols}) {
    const int64_t rows = shape[0], cols = shape[1];
    const auto matrix = [&](uint32_t seed) {
      return upload(random_values(rows * cols, seed, 2, dtype()), shape, type);
    };
    const auto vector = [&](uint32_t seed) { return upload(random_values(cols, seed, 1, dtype()), {cols}, type); };
    const bool layer = kind == NormKind::layer;
    Problem s;
    s.forward = {.kind = kind,
                 .x = matrix(1),
                 .delta = matrix(2),
                 .weight = vector(3),
                 .bias = layer ? vector(4) : TensorView{},
                 .sum = tensor(shape, type),
                 .mean = layer ? tensor({rows}, DType::fp32) : TensorView{},
                 .rstd = tensor({rows}, DType::fp32),
                 .y = Operand(tensor(shape, type)),
                 .eps = 1e-5f,
                 .weight_offset = layer ? 0.0f : 1.0f};
    s.backward = {.kind = kind,
                  .sum = s.forward.sum,
                  .mean = s.forward.mean,
                  .rstd = s.forward.rstd,
                  .weight = s.forward.weight,
                  .dy = matrix(5),
                  .dresidual = {},
                  .dx = tensor(shape, type),
                  .dweight = tensor({cols}, DType::fp32),
                  .dbias = layer ? tensor({cols}, DType::fp32) : TensorView{},
                  .weight_offset = s.forward.weight_offset};
    return s;
  }
};

// Every way a row is spread over the threads of a GPU, in 16-bit types and in fp32; 45 columns and 16400 take the
// kernels for any width.
const Shape kShapes[] = {{kRows, kCols}, {5000, 8},  {kRows, 64}, {kRows, 384}, {21, 768}, {21, 896},  {kRows, 1024},
                         {19, 2048},     {19, 3072}, {19, 4096},  {11, 6144},   {9, 8192}, {5, 12288}, {3, 16400}};

TEST_P(NormTest, MatchesFp32) {
  const bool approximate = on_gpu() && dtype() == DType::fp32;  // sums in another order than the CPU's
  for (NormKind kind : {NormKind::rms, NormKind::layer}) {
    for (const Shape& shape : kShapes) {
      const ArenaScope scope(ctx_.persistent);
      Problem narrow = make(kind, dtype(), shape), wide = make(kind, DType::fp32, shape);
      // The narrow sum is rounded before the norm sees it: give the reference the same sum.
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
  for (int64_t begin : {16, 3}) {  // aligned, and not
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

// A GPU's block that has many rows gets the next ones while it works on some: in place and with a ragged end.
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

// LayerNorm without biases is the one whose biases are 0.
TEST_P(NormTest, LayerWithoutBias) {
  for (const Shape& shape : {Shape{kRows, kCols}, Shape{kRows, 384}, Shape{21, 768}, Shape{19, 4096}}) {
    const ArenaScope scope(ctx_.persistent);
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
    backward.y = Operand(tensor(shape, dtype()));
    norm_backward(ctx_, backward);
    expect_same_bits(download(backward.dx), download(s.backward.dx), "dx");
    expect_same_bits(download(backward.dweight), download(s.backward.dweight), "dweight");
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

// What the fused outputs are compared with: the ops they stand for, on the same device, bit for bit.
class NormFusionTest : public NormTest {
 protected:
  NormFusionTest() {
    scalars().dropout = 0.3f;
    scalars().seed = 0x123456789abcdef0;
    scalars().step = 17;
    scalars().token_base = 1000;
  }
  std::vector<float> dropped(const TensorView& x, uint32_t site) {
    const TensorView y = tensor(x.shape, dtype());
    dropout(ctx_, {.x = x, .y = y, .site = site});
    return download(y);
  }
};

TEST_P(NormFusionTest, ForwardDropsDelta) {
  for (NormKind kind : {NormKind::rms, NormKind::layer}) {
    for (const Shape& shape : kShapes) {
      for (float probability : {0.3f, 0.0f}) {
        const ArenaScope scope(ctx_.persistent);
        scalars().dropout = probability;
        Problem fused = make(kind, dtype(), shape), apart = make(kind, dtype(), shape);
        fused.forward.dropout = true;
        fused.forward.dropout_site = 9;
        norm_forward(ctx_, fused.forward);
        apart.forward.delta = upload(dropped(apart.forward.delta, 9), shape, dtype());
        norm_forward(ctx_, apart.forward);
        expect_same_bits(download(fused.forward.sum), download(apart.forward.sum), "sum");
        expect_same_bits(download(fused.forward.rstd), download(apart.forward.rstd), "rstd");
        expect_same_bits(download(fused.forward.y.plain), download(apart.forward.y.plain), "y");
      }
    }
  }
}

// A GPU has kernels for 384 columns without bias. A bias of -0 changes nothing but the kernel.
TEST_P(NormFusionTest, WithoutBiasAsWithOneOfNothing) {
  for (const Shape& shape : {Shape{1, 384}, Shape{kRows, 384}, Shape{205, 384}}) {
    for (bool drops : {false, true}) {
      const ArenaScope scope(ctx_.persistent);
      Problem with = make(NormKind::layer, dtype(), shape), without = make(NormKind::layer, dtype(), shape);
      with.forward.dropout = without.forward.dropout = drops;
      with.forward.bias = upload(std::vector<float>(384, -0.0f), {384}, dtype());
      without.forward.bias = {};
      without.forward.sum = without.forward.x;
      norm_forward(ctx_, with.forward);
      norm_forward(ctx_, without.forward);
      expect_same_bits(download(without.forward.sum), download(with.forward.sum), "sum, in place");
      expect_same_bits(download(without.forward.mean), download(with.forward.mean), "mean");
      expect_same_bits(download(without.forward.rstd), download(with.forward.rstd), "rstd");
      expect_same_bits(download(without.forward.y.plain), download(with.forward.y.plain), "y");

      // The gradient of a bias, or the output again, takes the other kernel.
      with.backward.dresidual = upload(download(with.forward.x), shape, dtype());
      without.backward = with.backward;
      without.backward.dx = without.backward.dresidual;  // in place
      without.backward.dweight = tensor({384}, DType::fp32);
      without.backward.dbias = {};
      with.backward.y = Operand(tensor(shape, dtype()));
      with.backward.bias = with.forward.bias;
      if (drops) with.backward.dropped = tensor(shape, dtype()), without.backward.dropped = tensor(shape, dtype());
      norm_backward(ctx_, with.backward);
      norm_backward(ctx_, without.backward);
      expect_same_bits(download(without.backward.dx), download(with.backward.dx), "dx, in place");
      expect_same_bits(download(without.backward.dweight), download(with.backward.dweight), "dweight");
      if (!drops) continue;
      expect_same_bits(download(without.backward.dropped), download(with.backward.dropped), "dropped");
    }
  }
}

TEST_P(NormFusionTest, BackwardGivesTheOutputAgainAndDropsItsGradient) {
  for (NormKind kind : {NormKind::rms, NormKind::layer}) {
    for (const Shape& shape : kShapes) {
      const ArenaScope scope(ctx_.persistent);
      Problem s = make(kind, dtype(), shape);
      norm_forward(ctx_, s.forward);
      s.backward.dresidual = s.forward.x;
      norm_backward(ctx_, s.backward);
      NormGradArgs fused = s.backward;
      fused.dx = tensor(shape, dtype());
      fused.dweight = tensor({shape[1]}, DType::fp32);
      fused.y = Operand(tensor(shape, dtype()));
      fused.bias = s.forward.bias;
      fused.dropped = tensor(shape, dtype());
      fused.dropout_site = 9;
      norm_backward(ctx_, fused);
      expect_same_bits(download(fused.dx), download(s.backward.dx), "dx");
      expect_same_bits(download(fused.dweight), download(s.backward.dweight), "dweight");
      expect_same_bits(download(fused.y.plain), download(s.forward.y.plain), "y");
      expect_same_bits(download(fused.dropped), dropped(s.backward.dx, 9), "dropped");
      fused.dropped = fused.sum;
      norm_backward(ctx_, fused);
      expect_same_bits(download(fused.sum), dropped(s.backward.dx, 9), "dropped over the sum");
      expect_same_bits(download(fused.y.plain), download(s.forward.y.plain), "y beside it");
    }
  }
}

// The gradient of a bias in front of the norm is the sum of what was stored, dropped or not; for RMSNorm too.
TEST_P(NormFusionTest, BackwardCollectsForTheBranchsBias) {
  for (NormKind kind : {NormKind::rms, NormKind::layer}) {
    for (const Shape& shape : kShapes) {
      for (bool drops : {false, true}) {
        const ArenaScope scope(ctx_.persistent);
        Problem s = make(kind, dtype(), shape);
        norm_forward(ctx_, s.forward);
        s.backward.dresidual = s.forward.x;
        if (drops) s.backward.dropped = tensor(shape, dtype());
        s.backward.dropout_site = 9;
        norm_backward(ctx_, s.backward);
        NormGradArgs fused = s.backward;
        fused.dx = tensor(shape, dtype());
        fused.dweight = tensor({shape[1]}, DType::fp32);
        if (drops) fused.dropped = tensor(shape, dtype());
        const std::vector<float> old = random_values(shape[1], 8);
        fused.dbranch_bias = upload(old, {shape[1]}, DType::fp32);
        fused.branch_beta = 1;
        norm_backward(ctx_, fused);
        expect_reduction(download(fused.dx), download(s.backward.dx), dtype(), 1, 8, "dx");
        expect_reduction(download(fused.dweight), download(s.backward.dweight), DType::fp32, shape[0], 2, "dweight");
        const TensorView expected = upload(old, {shape[1]}, DType::fp32);
        const TensorView stored = drops ? fused.dropped : fused.dx;
        bias_grad(ctx_, {.dy = stored, .dbias = expected, .beta = 1});
        expect_reduction(download(fused.dbranch_bias), download(expected), DType::fp32, shape[0], 2, "branch");
      }
    }
  }
}

// Each alone, without dropout, in place.
TEST_P(NormFusionTest, BackwardGivesEitherAlone) {
  for (const Shape& shape : {Shape{kRows, kCols}, Shape{kRows, 384}}) {
    const ArenaScope scope(ctx_.persistent);
    scalars().dropout = 0;
    Problem s = make(NormKind::layer, dtype(), shape);
    norm_forward(ctx_, s.forward);
    norm_backward(ctx_, s.backward);
    const std::vector<float> dx = download(s.backward.dx);

    NormGradArgs again = s.backward, drops = s.backward;
    again.y = Operand(tensor(shape, dtype()));
    again.bias = s.forward.bias;
    norm_backward(ctx_, again);
    expect_same_bits(download(again.y.plain), download(s.forward.y.plain), "y");
    drops.dx = drops.dy;
    drops.dropped = tensor(shape, dtype());
    norm_backward(ctx_, drops);
    expect_same_bits(download(drops.dx), dx, "dx over dy");
    expect_same_bits(download(drops.dropped), dx, "dropped");
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
INSTANTIATE_TEST_SUITE_P(Ops, NormFusionTest, testing::ValuesIn(all_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, NormTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
