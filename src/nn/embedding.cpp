// SPDX-License-Identifier: Apache-2.0
#include "nn/embedding.h"

#include "core/rng.h"
#include "ops/dropout.h"
#include "ops/embedding.h"

namespace gradmill {

Embedding::Embedding(ParamTable& params, const Options& options) : options_(options) {
  table_ = params.add({.name = options.name + ".tokens.weight",
                       .rows = options.vocab,
                       .cols = options.width,
                       .init_std = options.init_std});
  if (options.positions > 0) {
    positions_ = params.add({.name = options.name + ".positions.weight",
                             .rows = options.positions,
                             .cols = options.width,
                             .init_std = options.init_std});
  }
}

void Embedding::forward(Pass& pass, const TensorView& tokens, const TensorView& y) const {
  const NameScope scope(pass.ctx, "embedding");
  EmbeddingArgs args{.indices = tokens, .table = pass.weights[table_], .y = y, .scale = options_.scale};
  if (positions_ != kNoParam) {
    args.position_indices = pass.seq.positions;
    args.position_table = pass.weights[positions_];
  }
  embedding_forward(pass.ctx, args);
  if (options_.dropout && pass.training()) dropout(pass.ctx, {.x = y, .y = y, .site = RngSite::kEmbedding});
}

void Embedding::backward(Pass& pass, const TensorView& tokens, const TensorView& dy) const {
  const NameScope scope(pass.ctx, "embedding");
  if (options_.dropout) dropout(pass.ctx, {.x = dy, .y = dy, .site = RngSite::kEmbedding});
  if (const auto target = pass.grads->write(table_); target.grad.defined()) {
    embedding_backward(
        pass.ctx, {.indices = tokens, .dy = dy, .dtable = target.grad, .scale = options_.scale, .beta = target.beta});
  }
  if (const auto target = pass.grads->write(positions_); target.grad.defined()) {
    embedding_backward(pass.ctx, {.indices = pass.seq.positions, .dy = dy, .dtable = target.grad, .beta = target.beta});
  }
}

}  // namespace gradmill
