// SPDX-License-Identifier: Apache-2.0
#include "nn/embedding.h"

#include <array>

#include "core/rng.h"
#include "ops/bias_grad.h"
#include "ops/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/init.h"

namespace gradmill {
namespace {

float rounded_to(DType dtype, float value) {
  if (dtype == DType::bf16) return static_cast<float>(Bf16(value));
  if (dtype == DType::fp16) return static_cast<float>(Fp16(value));
  return value;
}

}  // namespace

Embedding::Embedding(ParamTable& params, const Options& options) : options_(options) {
  const auto add_table = [&](std::string_view what, int64_t rows) {
    return params.add({.name = fmt::format("{}.{}.weight", options.name, what),
                       .rows = rows,
                       .cols = options.width,
                       .init_std = options.init_std});
  };
  table_ = add_table("tokens", options.vocab);
  if (options.positions > 0) positions_ = add_table("positions", options.position_offset + options.positions);
  if (options.token_types > 0) types_ = add_table("types", options.token_types);
  if (!options.normed) return;
  Norm::Options norm = options.norm;
  norm.name = options.name + ".norm";
  norm.width = options.width;
  norm_ = Norm(params, norm);
}

bool Embedding::wants(const Gradients& grads) const {
  return grads.wants(table_) || grads.wants(positions_) || grads.wants(types_) || norm_.wants(grads);
}

TensorView Embedding::used_positions(const TensorView& table) const {
  return table.slice_rows(options_.position_offset, options_.position_offset + options_.positions);
}

Drop Embedding::drop(const Pass& pass) const { return {options_.dropout && pass.training(), RngSite::kEmbedding}; }

void Embedding::forward(Pass& pass, const TensorView& tokens, const TensorView& types, EmbeddingSaved& saved,
                        const TensorView& y) const {
  const NameScope scope(pass.ctx, "embedding");
  if (options_.normed) {
    saved.sum = pass.slot(Slot::x, y.shape, y.dtype, "sum");
    saved.stats = norm_.alloc_stats(pass, Slot::x, y.rows());
  }
  EmbeddingArgs args{.indices = tokens,
                     .table = pass.weights[table_],
                     .y = options_.normed ? saved.sum : y,
                     .scale = rounded_to(y.dtype, options_.scale),
                     .dropout = drop(pass).on && !options_.normed,
                     .dropout_site = drop(pass).site};
  if (positions_ != kNoParam) {
    args.position_indices = pass.seq.positions;
    args.position_table = used_positions(pass.weights[positions_]);
  }
  if (types_ != kNoParam) {
    args.type_indices = types;
    args.type_table = pass.weights[types_];
  }
  embedding_forward(pass.ctx, args);
  if (!options_.normed) return;
  norm_.forward(pass, saved.sum, {}, {}, {}, saved.stats, y);
  if (drop(pass).on) dropout(pass.ctx, {.x = y, .y = y, .site = drop(pass).site});
}

void Embedding::backward(Pass& pass, const TensorView& tokens, const TensorView& types, const EmbeddingSaved& saved,
                         const TensorView& dy, bool dropped) const {
  const NameScope scope(pass.ctx, "embedding");
  if (!wants(*pass.grads)) return;
  if (!dropped && drop(pass).on) dropout(pass.ctx, {.x = dy, .y = dy, .site = drop(pass).site});
  if (options_.normed) norm_.backward(pass, {.sum = saved.sum, .stats = saved.stats, .dy = dy, .dx = dy});
  std::array<EmbeddingGradArgs, kMaxEmbeddingTables> tables;
  size_t count = 0;
  const auto add = [&](ParamId table, const TensorView& indices, float scale) {
    const auto target = pass.grads->write(table);
    if (!target.grad.defined()) return;
    const TensorView dtable = table == positions_ ? used_positions(target.grad) : target.grad;
    tables[count++] = {.indices = indices, .dy = dy, .dtable = dtable, .scale = scale, .beta = target.beta};
    const int64_t unused = target.grad.rows() - dtable.rows();
    if (unused > 0 && target.beta == 0) init_values(pass.ctx, {.to = target.grad.slice_rows(0, unused)});
  };
  add(table_, tokens, rounded_to(dy.dtype, options_.scale));
  add(positions_, pass.seq.positions, 1);
  if (types.defined()) add(types_, types, 1);
  embedding_backward(pass.ctx, std::span(tables).first(count));
  if (!types.defined()) add_gradient_of_first_type(pass, dy);
}

// Every row is of type 0: a column sum, and zeros for the other types.
void Embedding::add_gradient_of_first_type(Pass& pass, const TensorView& dy) const {
  const auto target = pass.grads->write(types_);
  if (!target.grad.defined()) return;
  const TensorView first = target.grad.slice_rows(0, 1).reshape({dy.cols()});
  bias_grad(pass.ctx, {.dy = dy, .dbias = first, .beta = target.beta});
  if (target.beta == 0 && options_.token_types > 1) {
    init_values(pass.ctx, {.to = target.grad.slice_rows(1, options_.token_types)});
  }
}

}  // namespace gradmill
