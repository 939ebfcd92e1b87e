// SPDX-License-Identifier: Apache-2.0
// Norms with dropout, recomputed outputs, and the gradient of a branch's bias.
#include "ops/bias_grad.h"
#include "ops/dropout.h"
#include "ops/norm/norm_fixture.h"

namespace gradmill::test {
namespace {

// The fused outputs are compared with the separate ops on the same device, bit for bit.
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

// A GPU has special kernels for 384 columns without bias. A bias of -0 changes only the choice of kernel.
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

      // A bias gradient, or a recomputed output, makes it use the other kernel.
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

// The gradient of a bias before the norm is the sum of what was stored, with or without dropout; also for RMSNorm.
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

// Each output alone, without dropout, in place.
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

INSTANTIATE_TEST_SUITE_P(Ops, NormFusionTest, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
