// SPDX-License-Identifier: Apache-2.0
#include "nn/relative_positions.h"

#include "ops/convert.h"
#include "ops/init.h"

namespace gradmill {

RelativePositions::RelativePositions(ParamTable& params, const Options& options) {
  table_ = params.add(
      {.name = "relative.table.weight", .rows = options.rows, .cols = options.width, .init_std = options.init_std});
  if (!options.normed) return;
  Norm::Options norm = options.norm;
  norm.name = "relative.norm";
  norm.width = options.width;
  norm_ = Norm(params, norm);
}

void RelativePositions::forward(Pass& pass, NormStats& stats) const {
  const NameScope scope(pass.ctx, "relative");
  const TensorView table = pass.weights[table_];
  pass.relative = table;
  if (!norm_.defined()) return;
  pass.relative = pass.slot(Slot::x, table.shape, table.dtype, "norm");
  stats = norm_.alloc_stats(pass, Slot::x, table.rows());
  norm_.forward(pass, table, {}, {}, {}, stats, pass.relative);
}

void RelativePositions::begin_backward(Pass& pass) const {
  pass.drelative = {};
  if (!wants(*pass.grads)) return;
  // In fp32: as many terms as there are layers.
  pass.drelative = pass.ctx.alloc_scratch(pass.relative.shape, DType::fp32, "d relative");
  init_values(pass.ctx, {.to = pass.drelative});
}

void RelativePositions::end_backward(Pass& pass, const NormStats& stats) const {
  if (!pass.drelative.defined()) return;
  const NameScope scope(pass.ctx, "relative");
  const ArenaScope scratch(pass.ctx.scratch);
  TensorView dtable = pass.drelative;
  if (norm_.defined()) {
    const TensorView table = pass.weights[table_];
    if (table.dtype != DType::fp32) {
      dtable = pass.scratch(table.shape, "d relative, narrow");
      convert(pass.ctx, {.from = pass.drelative, .to = dtable});
    }
    norm_.backward(pass, {.sum = table, .stats = stats, .dy = dtable, .dx = dtable});
  }
  const auto target = pass.grads->write(table_);
  if (target.grad.defined()) convert(pass.ctx, {.from = dtable, .to = target.grad, .beta = target.beta});
}

}  // namespace gradmill
