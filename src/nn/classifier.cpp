// SPDX-License-Identifier: Apache-2.0
#include "nn/classifier.h"

#include "core/rng.h"
#include "ops/activation.h"
#include "ops/convert.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/label_loss.h"
#include "ops/soft_cap.h"

namespace gradmill {
namespace {

// A sequence's mask is its first row's, so that the split into micro-batches does not change it.
void drop_rows(Pass& pass, const TensorView& x) {
  const TensorView first_rows = pass.seq.cu_q.slice_rows(0, x.rows());
  dropout(pass.ctx, {.x = x, .y = x, .site = RngSite::kClassifier, .tokens = first_rows});
}

}  // namespace

Classifier::Classifier(ParamTable& params, const Options& options) : options_(options) {
  if (options.pooler != PoolerKind::none) {
    dense_ = Linear(params, {.name = "pooler",
                             .in = options.width,
                             .slices = {{"dense", options.width}},
                             .bias = options.pooler_bias,
                             .init_std = options.init_std});
  }
  if (options.pooler == PoolerKind::gelu_norm) {
    Norm::Options norm = options.norm;
    norm.name = "pooler.norm";
    norm.width = options.width;
    norm_ = Norm(params, norm);
  }
  linear_ = Linear(params, {.name = "classifier",
                            .in = options.width,
                            .slices = {{"labels", options.labels}},
                            .bias = options.bias,
                            .init_std = options.init_std});
}

Classifier::Saved Classifier::pool(Pass& pass, const TensorView& x) const {
  const Shape shape{pass.seq.max_seqs, options_.width};
  Saved saved{.pooled = pass.scratch(shape, "pooled")};
  pool_rows_forward(pass.ctx, {.kind = options_.pooling, .x = x, .cu = pass.seq.cu_q, .y = saved.pooled});
  saved.features = saved.pooled;
  if (options_.pooler != PoolerKind::none) {
    saved.dense = pass.scratch(shape, "pooler");
    saved.activated = saved.features = pass.scratch(shape, "pooler activated");
    dense_.forward(pass, saved.pooled, saved.dense);
    if (options_.pooler == PoolerKind::tanh) {
      soft_cap_forward(pass.ctx, {.x = saved.dense, .y = saved.activated});
    } else {
      activation_forward(pass.ctx, {.kind = Activation::gelu_erf, .x = saved.dense, .y = saved.activated});
    }
  }
  if (norm_.defined()) {
    saved.features = pass.scratch(shape, "pooler normed");
    saved.stats = norm_.scratch_stats(pass, shape[0]);
    norm_.forward(pass, saved.activated, {}, {}, {}, saved.stats, saved.features);
  }
  if (drops(pass)) drop_rows(pass, saved.features);
  return saved;
}

void Classifier::logits(Pass& pass, const TensorView& x, const TensorView& out) const {
  const NameScope name(pass.ctx, "classifier");
  const ArenaScope scope(pass.ctx.scratch);
  linear_.forward(pass, pool(pass, x).features, out);
}

void Classifier::loss(Pass& pass, const TensorView& x, const TensorView& targets, const TensorView& dx) const {
  const NameScope name(pass.ctx, "classifier");
  const ArenaScope scope(pass.ctx.scratch);
  const int64_t seqs = pass.seq.max_seqs;
  const Saved saved = pool(pass, x);
  // Rows that begin at multiples of 16 bytes, whatever the number of labels: matrix units want that.
  const Shape padded{seqs, (options_.labels + 7) / 8 * 8};
  const TensorView logits = pass.ctx.alloc_scratch(padded, DType::fp32, "class logits").slice_cols(0, options_.labels);
  const TensorView losses = pass.ctx.alloc_scratch({seqs}, DType::fp32, "losses");
  linear_.forward(pass, saved.features, logits);
  label_loss(pass.ctx, {.logits = logits,
                        .targets = targets,
                        .cu = pass.seq.cu_q,
                        .class_weights = pass.class_weights,
                        .losses = losses,
                        .write_grad = pass.training()});
  add_loss_sum(pass.ctx, losses);
  if (!pass.training()) return;
  TensorView dlogits = logits;
  if (pass.weights.dtype() != DType::fp32) {
    dlogits = pass.scratch(padded, "d class logits").slice_cols(0, options_.labels);
    convert(pass.ctx, {.from = logits, .to = dlogits});
  }
  const TensorView dfeatures = pass.scratch(saved.features.shape, "d features");
  linear_.backward_weight(pass, saved.features, dlogits);
  linear_.backward_bias(pass, logits);
  linear_.backward_input(pass, dlogits, dfeatures);
  if (drops(pass)) drop_rows(pass, dfeatures);
  if (options_.pooler != PoolerKind::none) backward_pooler(pass, saved, dfeatures);
  pool_rows_backward(pass.ctx, {.kind = options_.pooling, .cu = pass.seq.cu_q, .dy = dfeatures, .dx = dx});
}

void Classifier::backward_pooler(Pass& pass, const Saved& saved, const TensorView& dfeatures) const {
  if (norm_.defined()) {
    norm_.backward(pass, {.sum = saved.activated, .stats = saved.stats, .dy = dfeatures, .dx = dfeatures});
  }
  if (options_.pooler == PoolerKind::tanh) {
    soft_cap_backward(pass.ctx, {.x = saved.dense, .dy = dfeatures, .dx = saved.dense});
  } else {
    activation_backward(pass.ctx, {.kind = Activation::gelu_erf, .x = saved.dense, .dy = dfeatures, .dx = saved.dense});
  }
  dense_.backward_weight(pass, saved.pooled, saved.dense);
  dense_.backward_bias(pass, saved.dense);
  dense_.backward_input(pass, saved.dense, dfeatures);
}

}  // namespace gradmill
