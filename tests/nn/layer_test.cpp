// SPDX-License-Identifier: Apache-2.0
// Every layer's gradients against central differences: of its input and of each of its parameters.
#include <numeric>

#include "nn/embedding.h"
#include "nn/residual.h"
#include "ops/dropout.h"
#include "support/op_test.h"

namespace gradmill::test {
namespace {

constexpr int64_t kRows = 22, kWidth = 24;

class LayerTest : public OpTest {
 protected:
  // Random parameters near their usual size, and the layout of three ragged sequences with two padding rows.
  void build() {
    weights_.emplace(ctx_, params_, DType::fp32);
    grads_.emplace(ctx_, params_);
    for (ParamId id = 0; id < params_.size(); ++id) {
      const ParamSpec& spec = params_.spec(id);
      std::vector<float> values =
          random_values(spec.numel(), 100 + static_cast<uint32_t>(id), spec.is_matrix() ? 0.4f : 0.3f);
      if (spec.init == Init::ones) {
        for (float& value : values) value += 1;
      }
      weights_->set(ctx_, id, values.data());
    }
    const std::vector<int32_t> offsets = {0, 9, 10, 20};
    std::vector<int32_t> positions(kRows, 0);
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      std::iota(positions.begin() + offsets[s], positions.begin() + offsets[s + 1], 0);
    }
    seq_.positions = upload(positions);
    seq_.cu_q = seq_.cu_kv = upload(offsets);
    seq_.max_seqs = 3;
    seq_.max_len = 10;
  }

  Pass pass() {
    return {.ctx = ctx_,
            .weights = *weights_,
            .grads = &*grads_,
            .seq = seq_,
            .policy = SavePolicy::none(),
            .rope = {.global = rope_table_}};
  }

  TensorView matrix(uint32_t seed, int64_t cols = kWidth) {
    return upload(random_values(kRows * cols, seed), {kRows, cols}, DType::fp32);
  }

  void make_rope_table(int64_t dim) {
    std::vector<float> values;
    for (int64_t position = 0; position < 10; ++position) {
      for (int64_t j = 0; j < dim; ++j) {
        const float angle = static_cast<float>(position) / std::pow(100.0f, static_cast<float>(j % (dim / 2)));
        values.push_back(j < dim / 2 ? std::cos(angle) : std::sin(angle));
      }
    }
    rope_table_ = upload(values, {10, dim}, DType::fp32);
  }

  // forward() must fill `output`; backward() must fill the gradients and `dinput`.
  void expect_all_gradients(const std::function<void()>& forward, const std::function<void()>& backward,
                            const TensorView& output, const TensorView& doutput, const TensorView& input,
                            const TensorView& dinput) {
    grads_->begin_step();
    forward();
    backward();
    ASSERT_TRUE(grads_->all_written());
    const GradientCheck check{.forward = forward, .output = output, .doutput = download(doutput), .tolerance = 1e-2};
    if (input.defined()) expect_gradient(check, input, download(dinput), "the input");
    for (ParamId id = 0; id < params_.size(); ++id) {
      expect_gradient(check, (*weights_)[id], download(grads_->view(id)), params_.spec(id).name);
    }
  }

  ParamTable params_;
  std::optional<Weights> weights_;
  std::optional<Gradients> grads_;
  SeqLayout seq_;
  TensorView rope_table_;
};

TEST_P(LayerTest, Linear) {
  const Linear layer(params_, {.name = "linear", .in = kWidth, .slices = {{"a", 10}, {"b", 9}}, .bias = true});
  build();
  const TensorView x = matrix(1), y = tensor({kRows, 19}, DType::fp32), dy = matrix(2, 19),
                   dx = tensor(x.shape, DType::fp32);
  Pass p = pass();
  const auto backward = [&] {
    layer.backward_weight(p, Operand(x), dy);
    layer.backward_bias(p, dy);
    layer.backward_input(p, dy, dx);
  };
  expect_all_gradients([&] { layer.forward(p, Operand(x), y); }, backward, y, dy, x, dx);
}

TEST_P(LayerTest, Norms) {
  for (NormKind kind : {NormKind::rms, NormKind::layer}) {
    params_ = {};
    const Norm layer(params_, {.name = "norm", .kind = kind, .width = kWidth, .eps = 1e-5f});
    build();
    Pass p = pass();
    const TensorView x = matrix(1), y = tensor(x.shape, DType::fp32), dy = matrix(2), dx = tensor(x.shape, DType::fp32);
    const NormStats stats = layer.alloc_stats(p, Slot::stats1, kRows);
    expect_all_gradients([&] { layer.forward(p, x, {}, {}, {}, stats, Operand(y)); },
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
        layer.forward(p, Operand(x), saved, y);
      };
      const auto backward = [&] {
        const ArenaScope scope(ctx_.scratch);
        const TensorView dqkv = p.scratch(saved.qkv.shape, "d qkv");
        layer.backward(p, saved, dy, dqkv, dx);
        layer.qkv().backward_weight(p, Operand(x), dqkv);
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
      layer.forward(p, Operand(x), saved, y);
    };
    const auto backward = [&] {
      layer.backward(p, saved, dy, dx);
      layer.backward_weight(p, Operand(x), saved);
    };
    expect_all_gradients(forward, backward, y, dy, x, dx);
  }
}

TEST_P(LayerTest, EmbeddingWithPositions) {
  const Embedding layer(params_, {.name = "embedding", .vocab = 7, .width = kWidth, .positions = 10, .scale = 1.5f});
  build();
  std::vector<int32_t> ids(kRows);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 7);
  const TensorView tokens = upload(ids), y = tensor({kRows, kWidth}, DType::fp32), dy = matrix(2);
  Pass p = pass();
  expect_all_gradients([&] { layer.forward(p, tokens, y); }, [&] { layer.backward(p, tokens, dy); }, y, dy, {}, {});
}

TEST_P(LayerTest, BlockWithDropout) {
  for (float probability : {0.0f, 0.3f}) {
    params_ = {};
    Block::Options options{
        .norm = NormKind::layer, .norm_eps = 1e-5f, .name = "block", .dropout = probability > 0, .dropout_site = 70};
    options.attention = {.name = "block.attention",
                         .width = kWidth,
                         .heads = 3,
                         .kv_heads = 3,
                         .head_dim = 8,
                         .mask = {.left = -1, .right = 0},
                         .dropout = probability > 0,
                         .dropout_site = 69};
    options.mlp = {.name = "block.mlp", .width = kWidth, .hidden = 30, .activation = Activation::gelu_tanh};
    const Block block(params_, options);
    build();
    scalars().dropout = probability;
    scalars().seed = 5;
    Pass p = pass();
    const TensorView x = matrix(1), y = tensor(x.shape, DType::fp32), dy = matrix(2);
    BlockSaved saved;
    const auto forward = [&] {
      ctx_.saved.release({});
      const ArenaScope scope(ctx_.scratch);
      const StreamBuffers buffers{p.scratch(x.shape, "x"), p.scratch(x.shape, "delta")};
      Stream stream{Operand(x), {}};
      block.forward(p, stream, buffers, saved);
      // The stream's value, as a norm after the block would see it.
      if (stream.drop.on) dropout(ctx_, {.x = stream.delta, .y = stream.delta, .site = stream.drop.site});
      for (int64_t i = 0; i < y.numel(); ++i) {
        y.ptr<float>()[i] = stream.x.plain.ptr<float>()[i] + stream.delta.ptr<float>()[i];
      }
    };
    StreamGrad grad{.dx = upload(download(dy), dy.shape, DType::fp32)};
    if (probability > 0) {
      grad.dropped = tensor(dy.shape, DType::fp32);
      dropout(ctx_, {.x = grad.dx, .y = grad.dropped, .site = options.dropout_site + 1});
    }
    expect_all_gradients(
        forward, [&] { block.backward(p, saved, grad); }, y, dy, x, grad.dx);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, LayerTest, testing::ValuesIn(fp32_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
