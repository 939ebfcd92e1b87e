// SPDX-License-Identifier: Apache-2.0
// Heads: the gradient compared with central differences of the summed loss.
#include "nn/classifier.h"
#include "nn/layer_fixture.h"
#include "nn/lm_head.h"
#include "ops/cross_entropy/cross_entropy.h"

namespace gradmill::test {
namespace {

class HeadTest : public LayerTest {
 protected:
  // loss(dx) must add to loss_sum and, if a gradient is to be written, fill dx.
  void check(const std::function<void(Pass&, const TensorView& x, const TensorView& dx)>& loss,
             float tolerance = 1e-2f) {
    scalars().inv_targets = 1;
    const TensorView x = matrix(1), dx = tensor(x.shape, DType::fp32), sum = tensor({1}, DType::fp32);
    Pass training = pass(), forward_only = pass();
    forward_only.grads = nullptr;
    forward_only.policy = SavePolicy::forward_only();
    grads_->begin_step();
    loss(training, x, dx);
    ASSERT_TRUE(grads_->all_written());
    const auto forward = [&] {
      scalars().loss_sum = 0;
      loss(forward_only, x, {});
      *sum.ptr<float>() = static_cast<float>(scalars().loss_sum);
    };
    const GradientCheck central{.forward = forward, .output = sum, .doutput = {1}, .tolerance = tolerance};
    expect_gradient(central, x, download(dx), "x");
    for (ParamId id = 0; id < params_.size(); ++id) {
      expect_gradient(central, (*weights_)[id], download(grads_->view(id)), params_.spec(id).name);
    }
  }
};

TEST_P(HeadTest, ClassifierOfEveryPooler) {
  for (Pooling pooling : {Pooling::first, Pooling::last, Pooling::mean}) {
    for (PoolerKind pooler : {PoolerKind::none, PoolerKind::tanh, PoolerKind::gelu, PoolerKind::gelu_norm}) {
      for (int64_t labels : {1, 3}) {
        ctx_.persistent.release(start_);
        params_ = {};
        const Classifier head(params_, {.width = kWidth,
                                        .labels = labels,
                                        .pooling = pooling,
                                        .pooler = pooler,
                                        .bias = true,
                                        .norm = {.kind = NormKind::layer, .eps = 1e-5f}});
        build();
        const TensorView targets = labels == 1 ? upload(std::vector<float>{0.5f, -1, 2}, {3}, DType::fp32)
                                               : upload(std::vector<int32_t>{2, kIgnoredTarget, 0});
        const TensorView weights = upload(std::vector<float>{0.5f, 1, 2}, {3}, DType::fp32);
        check([&](Pass& p, const TensorView& x, const TensorView& dx) {
          if (labels > 1) p.class_weights = weights;
          head.loss(p, x, targets, dx);
        });
      }
    }
  }
}

// Dropped features are dropped in the gradient as well, with a mask that depends on the sequence, not on its position
// in the micro-batch.
TEST_P(HeadTest, ClassifierDropsFeatures) {
  const Classifier head(params_, {.width = kWidth, .labels = 2, .pooler = PoolerKind::tanh, .dropout = true});
  build();
  scalars().dropout = 0.4f;
  scalars().inv_targets = 1;
  scalars().seed = 3;
  const TensorView x = matrix(1), dx = tensor(x.shape, DType::fp32);
  const TensorView targets = upload(std::vector<int32_t>{kIgnoredTarget, kIgnoredTarget, 1});
  Pass p = pass();
  grads_->begin_step();
  head.loss(p, x, targets, dx);
  const std::vector<float> whole = download(grads_->flat());
  const double loss = scalars().loss_sum;
  // The third sequence alone, as a separate micro-batch.
  SeqLayout alone = seq_;
  alone.cu_q = alone.cu_kv = upload(std::vector<int32_t>{0, 10});
  alone.max_seqs = 1;
  p.seq = alone;
  scalars().token_base += 10;
  scalars().loss_sum = 0;
  grads_->begin_step();
  head.loss(p, x.slice_rows(10, kRows), upload(std::vector<int32_t>{1}), dx.slice_rows(10, kRows));
  EXPECT_NEAR(scalars().loss_sum, loss, 1e-6);
  expect_close(download(grads_->flat()), whole, 1e-6, "gradients");
}

TEST_P(HeadTest, LanguageModels) {
  for (bool masked : {false, true}) {
    for (float softcap : {0.0f, 2.0f}) {
      ctx_.persistent.release(start_);
      params_ = {};
      const LmHead head(params_, {.name = "head",
                                  .width = kWidth,
                                  .vocab = 13,
                                  .bias = masked,
                                  .softcap = softcap,
                                  .transform = masked,
                                  .transform_options = {.norm = {.kind = NormKind::layer, .eps = 1e-5f}},
                                  .chunk_rows = 8});
      build();
      std::vector<int32_t> ids(kRows);
      for (size_t i = 0; i < ids.size(); ++i) {
        ids[i] = i % 4 == 0 || i >= 20 ? kIgnoredTarget : static_cast<int32_t>(i % 13);
      }
      const TensorView targets = upload(ids), weights = upload(random_values(kRows, 7, 2), {kRows}, DType::fp32);
      check([&](Pass& p, const TensorView& x, const TensorView& dx) { head.loss(p, x, {targets}, dx); });
      check([&](Pass& p, const TensorView& x, const TensorView& dx) { head.loss(p, x, {targets, weights}, dx); });
    }
  }
}

TEST_P(HeadTest, LanguageModelsTellTheLossOfEachSequence) {
  const LmHead head(params_, {.name = "head", .width = kWidth, .vocab = 13, .chunk_rows = 8});
  build();
  std::vector<int32_t> ids(kRows, 3);
  for (size_t i = 0; i < ids.size(); i += 4) ids[i] = kIgnoredTarget;
  const TensorView x = matrix(1), sums = tensor({3}, DType::fp32);
  Pass p = pass();
  p.grads = nullptr;
  head.loss(p, x, {.values = upload(ids), .sequence_losses = sums}, {});
  const std::vector<float> all = download(sums);
  const std::vector<int32_t> offsets = {0, 9, 10, 20};
  for (size_t s = 0; s < 3; ++s) {
    std::vector<int32_t> of_one(kRows, kIgnoredTarget);
    std::copy(ids.begin() + offsets[s], ids.begin() + offsets[s + 1], of_one.begin() + offsets[s]);
    scalars().loss_sum = 0;
    head.loss(p, x, {upload(of_one)}, {});
    EXPECT_NEAR(all[s], scalars().loss_sum, 1e-5);
  }
}

// A GPU multiplies with more columns than a vocabulary of 65 has: neither the loss nor any gradient may see them, not
// even where memory held NaN before.
TEST_P(HeadTest, OddVocabulariesAgreeWithTheCpu) {
  constexpr int64_t kVocab = 65;
  std::vector<int32_t> ids(kRows);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = i % 7 == 3 ? kIgnoredTarget : static_cast<int32_t>((64 + 13 * i) % kVocab);
  }
  for (bool bias : {false, true}) {
    for (float softcap : {0.0f, 3.0f}) {
      ctx_.persistent.release(start_);
      params_ = {};
      const LmHead head(
          params_,
          {.name = "head", .width = kWidth, .vocab = kVocab, .bias = bias, .softcap = softcap, .chunk_rows = 9});
      build();
      scalars().inv_targets = 1;
      const TensorView x = matrix(1), targets = upload(ids);
      const auto run = [&](ExecContext& ctx) {
        Pass training{.ctx = ctx, .weights = *weights_, .grads = &*grads_, .seq = seq_, .policy = SavePolicy::none()};
        const TensorView dx = tensor(x.shape, DType::fp32);
        scalars().loss_sum = 0;
        grads_->begin_step();
        head.loss(training, x, {targets}, dx);
        std::vector<float> results = download(dx), grads = download(grads_->flat());
        results.insert(results.end(), grads.begin(), grads.end());
        results.push_back(static_cast<float>(scalars().loss_sum));
        return results;
      };
      const std::vector<float> expected = run(reference_), actual = run(ctx_);
      expect_close(actual, expected, 1e-5, "dx, gradients and loss");
      EXPECT_NEAR(actual.back(), expected.back(), 1e-3);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, HeadTest, testing::ValuesIn(fp32_cases()), case_name);

}  // namespace
}  // namespace gradmill::test
