// SPDX-License-Identifier: Apache-2.0
// The gradients of every layer compared with central differences: of its input and of each of its parameters.
#include "nn/embedding.h"
#include "nn/layer_fixture.h"
#include "nn/residual.h"

namespace gradmill::test {
namespace {

TEST_P(LayerTest, Linear) {
  const Linear layer(params_, {.name = "linear", .in = kWidth, .slices = {{"a", 10}, {"b", 9}}, .bias = true});
  build();
  const TensorView x = matrix(1), y = tensor({kRows, 19}, DType::fp32), dy = matrix(2, 19),
                   dx = tensor(x.shape, DType::fp32);
  Pass p = pass();
  const auto backward = [&] {
    layer.backward_weight(p, x, dy);
    layer.backward_bias(p, dy);
    layer.backward_input(p, dy, dx);
  };
  expect_all_gradients([&] { layer.forward(p, x, y); }, backward, y, dy, x, dx);
}

TEST_P(LayerTest, Norms) {
  for (NormKind kind : {NormKind::rms, NormKind::layer}) {
    params_ = {};
    const Norm layer(params_, {.name = "norm", .kind = kind, .width = kWidth, .eps = 1e-5f});
    build();
    Pass p = pass();
    const TensorView x = matrix(1), y = tensor(x.shape, DType::fp32), dy = matrix(2), dx = tensor(x.shape, DType::fp32);
    const NormStats stats = layer.alloc_stats(p, Slot::stats1, kRows);
    expect_all_gradients([&] { layer.forward(p, x, {}, {}, {}, stats, y); },
                         [&] { layer.backward(p, {.sum = x, .stats = stats, .dy = dy, .dx = dx}); }, y, dy, x, dx);
  }
}

TEST_P(LayerTest, SelfAttention) {
  for (bool rope : {false, true}) {
    for (bool qk_norm : {false, true}) {
      if (qk_norm && !rope) continue;
      params_ = {};
      const SelfAttention layer(params_, {.name = "attention",
                                          .width = kWidth,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .head_dim = 8,
                                          .qkv_bias = true,
                                          .out_bias = true,
                                          .rope = rope,
                                          .qk_norm = qk_norm,
                                          .mask = {.left = 5, .right = 0}});
      build();
      make_rope_table(8);
      Pass p = pass();
      const TensorView x = matrix(1), y = tensor(x.shape, DType::fp32), dy = matrix(2),
                       dx = tensor(x.shape, DType::fp32);
      AttentionSaved saved;
      const auto forward = [&] {
        ctx_.saved.release({});
        Product product = layer.forward(p, x, saved, y);
        finish_product(ctx_, product);
      };
      const auto backward = [&] {
        const ArenaScope scope(ctx_.scratch);
        const Operand dqkv = layer.backward(p, saved, dy, dx);
        layer.out().backward_bias(p, dy);
        layer.qkv().backward_weight(p, x, dqkv);
      };
      expect_all_gradients(forward, backward, y, dy, x, dx);
    }
  }
}

TEST_P(LayerTest, MlpOfEachActivation) {
  for (Activation activation : {Activation::gelu_erf, Activation::gelu_tanh, Activation::swiglu, Activation::geglu_erf,
                                Activation::geglu_tanh}) {
    params_ = {};
    const Mlp layer(params_, {.name = "mlp", .width = kWidth, .hidden = 20, .activation = activation, .bias = true});
    build();
    Pass p = pass();
    const TensorView x = matrix(1), y = tensor(x.shape, DType::fp32), dy = matrix(2), dx = tensor(x.shape, DType::fp32);
    MlpSaved saved;
    const auto forward = [&] {
      ctx_.saved.release({});
      layer.forward_hidden(p, x, saved);
      Product product = layer.forward_down(p, saved, y);
      finish_product(ctx_, product);
    };
    const auto backward = [&] {
      const ArenaScope scope(ctx_.scratch);
      layer.up().backward_weight(p, x, layer.backward(p, saved, {}, dy, dx));
      layer.down().backward_bias(p, dy);
    };
    expect_all_gradients(forward, backward, y, dy, x, dx);
  }
}

// With a norm, and with types that are the same for all rows or given.
TEST_P(LayerTest, EmbeddingWithTypesAndNorm) {
  for (bool typed : {false, true}) {
    params_ = {};
    const Embedding layer(params_, {.name = "embedding",
                                    .vocab = 7,
                                    .width = kWidth,
                                    .positions = 10,
                                    .token_types = 3,
                                    .normed = true,
                                    .norm = {.kind = NormKind::layer, .eps = 1e-5f}});
    build();
    std::vector<int32_t> ids(kRows), types(kRows);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 7), types[i] = i % 5 < 2;
    const TensorView tokens = upload(ids), y = tensor({kRows, kWidth}, DType::fp32), dy = matrix(2);
    const TensorView type_ids = typed ? upload(types) : TensorView{};
    Pass p = pass();
    EmbeddingSaved saved;
    const auto forward = [&] {
      ctx_.saved.release({});
      layer.forward(p, tokens, type_ids, saved, y);
    };
    const auto backward = [&] {
      const TensorView changed = upload(download(dy), dy.shape, DType::fp32);
      layer.backward(p, tokens, type_ids, saved, changed, false);
    };
    expect_all_gradients(forward, backward, y, dy, {}, {});
  }
}

// √3072 is 55.4; models trained in bf16 have used 55.5.
TEST_P(LayerTest, EmbeddingScaleIsRoundedToTheComputeDtype) {
  for (const auto& [dtype, scale] : {std::pair{DType::fp32, std::sqrt(3072.0f)}, std::pair{DType::bf16, 55.5f}}) {
    params_ = {};
    const Embedding layer(params_, {.name = "embedding", .vocab = 2, .width = kWidth, .scale = std::sqrt(3072.0f)});
    Weights weights(ctx_, params_, dtype);
    weights.set(ctx_, layer.table(), std::vector<float>(2 * kWidth, 1).data());
    Pass p{.ctx = ctx_, .weights = weights};
    const TensorView y = tensor({1, kWidth}, dtype);
    EmbeddingSaved saved;
    layer.forward(p, upload(std::vector<int32_t>{1}), {}, saved, y);
    expect_same_bits(download(y), std::vector<float>(kWidth, scale), "y");
  }
}

TEST_P(LayerTest, EmbeddingWithPositions) {
  for (int64_t offset : {0, 2}) {
    params_ = {};
    const Embedding layer(
        params_,
        {.name = "embedding", .vocab = 7, .width = kWidth, .positions = 10, .position_offset = offset, .scale = 1.5f});
    EXPECT_EQ(params_.spec(params_.find("embedding.positions.weight")).rows, offset + 10);
    build();
    std::vector<int32_t> ids(kRows);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 7);
    const TensorView tokens = upload(ids), y = tensor({kRows, kWidth}, DType::fp32), dy = matrix(2);
    Pass p = pass();
    EmbeddingSaved saved;
    expect_all_gradients([&] { layer.forward(p, tokens, {}, saved, y); },
                         [&] { layer.backward(p, tokens, {}, saved, dy, false); }, y, dy, {}, {});
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, LayerTest, testing::ValuesIn(fp32_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
