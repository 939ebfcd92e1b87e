// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.h"

#include <cstring>

namespace gradmill {

Optimizer::Optimizer(ExecContext& ctx, const ParamTable& table, const AdamWOptions& options)
    : options_(options), table_(&table) {
  groups_[kDecayGroup].weight_decay = options.weight_decay;
  const NameScope scope(ctx, "adamw");
  m_ = ctx.alloc(ctx.persistent, {table.flat_size()}, DType::fp32, "first moments");
  v_ = ctx.alloc(ctx.persistent, {table.flat_size()}, DType::fp32, "second moments");
  if (ctx.dry) return;
  std::memset(m_.data, 0, m_.bytes());
  std::memset(v_.data, 0, v_.bytes());
}

void Optimizer::set_scalars(StepScalars& scalars) const {
  scalars.beta1 = options_.beta1;
  scalars.beta2 = options_.beta2;
  scalars.eps = options_.eps;
  scalars.clip = options_.clip;
}

void Optimizer::update(ExecContext& ctx, const Weights& weights, const Gradients& grads) const {
  const NameScope scope(ctx, "adamw");
  assert(grads.all_written());
  prepare_update(ctx, grads.flat());
  adamw(ctx, {.master = weights.flat_master(),
              .compute = weights.flat_compute(),
              .grads = grads.flat(),
              .m = m_,
              .v = v_,
              .segments = table_->segments(),
              .groups = groups_,
              .begin = 0,
              .end = table_->flat_size()});
}

}  // namespace gradmill
