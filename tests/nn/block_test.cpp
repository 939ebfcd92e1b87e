// SPDX-License-Identifier: Apache-2.0
// Blocks: gradients of every placement of norms against central differences, and the same bits whatever is kept.
#include "nn/layer_fixture.h"
#include "nn/residual.h"
#include "ops/dropout.h"

namespace gradmill::test {
namespace {

class BlockTest : public LayerTest {
 protected:
  static Block::Options options(NormPlacement placement, float probability) {
    const bool drops = probability > 0;
    Block::Options options{.placement = placement,
                           .norm = {.kind = NormKind::layer, .eps = 1e-5f},
                           .name = "block",
                           .dropout = drops,
                           .dropout_site = 70};
    options.attention = {.name = "block.attention",
                         .width = kWidth,
                         .heads = 3,
                         .kv_heads = 3,
                         .head_dim = 8,
                         .out_bias = true,
                         .mask = {.left = -1, .right = 0},
                         .dropout = drops,
                         .dropout_site = 69};
    options.mlp = {
        .name = "block.mlp", .width = kWidth, .hidden = 30, .activation = Activation::gelu_tanh, .bias = true};
    return options;
  }

  void check(const Block::Options& options, float probability) {
    params_ = {};
    const Block block(params_, options);
    build();
    scalars().dropout = probability;
    scalars().seed = 5;
    const TensorView x = matrix(1), y = tensor(x.shape, DType::fp32), dy = matrix(2);
    Pass p = pass();
    BlockSaved saved;
    BlockBuffers shared;
    const TensorView start = tensor(x.shape, DType::fp32);  // the backward will write over it
    const StreamBuffers buffers{tensor(x.shape, DType::fp32), tensor(x.shape, DType::fp32)};
    const auto forward = [&] {
      ctx_.saved.release({});
      const ArenaScope scope(ctx_.scratch);
      std::copy_n(x.ptr<float>(), x.numel(), start.ptr<float>());
      Stream stream{start, {}, {}, {}};
      saved = {};
      // Those of another block: what is written there does not stay.
      shared = block.make_buffers(p, x.rows(), 1).of(1);
      block.forward(p, stream, buffers, shared, saved);
      // The stream's value, as a norm after the block would see it.
      finish_product(ctx_, stream.product);
      if (stream.drop.on) dropout(ctx_, {.x = stream.delta, .y = stream.delta, .site = stream.drop.site});
      for (int64_t i = 0; i < y.numel(); ++i) {
        y.ptr<float>()[i] =
            stream.x.plain.ptr<float>()[i] + (stream.delta.defined() ? stream.delta.ptr<float>()[i] : 0.0f);
      }
    };
    const TensorView dx = tensor(dy.shape, DType::fp32), dropped = tensor(dy.shape, DType::fp32);
    const auto backward = [&] {
      std::copy_n(dy.ptr<float>(), dy.numel(), dx.ptr<float>());
      StreamGrad grad{.dx = dx, .branch = probability > 0 ? dropped : dx};
      if (probability > 0) dropout(ctx_, {.x = grad.dx, .y = dropped, .site = options.dropout_site + 1});
      // As the norm after the block would.
      if (block.last_layer()) block.last_layer()->backward_bias(p, grad.branch.plain);
      block.backward(p, saved, shared, grad, nullptr);
      p.deferred.run(ctx_);
      std::copy_n(grad.dx.ptr<float>(), dx.numel(), dx.ptr<float>());
    };
    expect_all_gradients(forward, backward, y, dy, x, dx);
    const std::vector<float> all = download(grads_->flat()), expected = download(dx);
    for (SavePolicy policy : {SavePolicy::cheap(), SavePolicy::block()}) {
      p.policy = policy;
      grads_->begin_step();
      forward();
      backward();
      expect_same_bits(download(grads_->flat()), all, "gradients");
      expect_same_bits(download(dx), expected, "dx");
    }
  }
};

TEST_P(BlockTest, EveryPlacementOfNorms) {
  for (NormPlacement placement :
       {NormPlacement::before, NormPlacement::after, NormPlacement::around, NormPlacement::output}) {
    for (float probability : {0.0f, 0.3f}) check(options(placement, probability), probability);
  }
}

TEST_P(BlockTest, NormsOverAllHeads) {
  Block::Options all = options(NormPlacement::output, 0);
  all.norm = {.kind = NormKind::rms};
  all.attention.rope = all.attention.qk_norm = all.attention.qk_norm_all_heads = true;
  make_rope_table(8);
  check(all, 0);
}

TEST_P(BlockTest, WithoutTheFirstNorm) {
  for (float probability : {0.0f, 0.3f}) {
    Block::Options without = options(NormPlacement::before, probability);
    without.has_norm1 = false;
    without.norm.bias = false;
    check(without, probability);
  }
}

TEST_P(BlockTest, NormsWithAnOffset) {
  Block::Options offset = options(NormPlacement::around, 0);
  offset.norm = {.kind = NormKind::rms, .offset = 1};
  offset.attention.rope = offset.attention.qk_norm = true;
  offset.attention.norm_offset = 1;
  make_rope_table(8);
  check(offset, 0);
}

INSTANTIATE_TEST_SUITE_P(Layers, BlockTest, testing::ValuesIn(fp32_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
