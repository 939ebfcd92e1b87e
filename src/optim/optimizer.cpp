// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.h"

#include <algorithm>

#include "ops/transfer.h"

namespace gradmill {
namespace {

static_assert(kNumParamGroups <= kMaxParamGroups);

// Parameters start at multiples of kSegmentPadding, so each block belongs to one group.
std::vector<int8_t> groups_of_blocks(const ParamTable& table) {
  std::vector<int8_t> groups(static_cast<size_t>(table.flat_size() / kSegmentPadding));
  for (const Segment& segment : table.segments()) {
    const int64_t blocks = (segment.size + kSegmentPadding - 1) / kSegmentPadding;
    std::fill_n(groups.begin() + segment.begin / kSegmentPadding, blocks, static_cast<int8_t>(segment.group));
  }
  return groups;
}

}  // namespace

Optimizer::Optimizer(ExecContext& ctx, const ParamTable& table, const AdamWOptions& options) : table_(&table) {
  const NameScope scope(ctx, "adamw");
  m_ = ctx.alloc(ctx.persistent, {table.flat_size()}, DType::fp32, "first moments");
  v_ = ctx.alloc(ctx.persistent, {table.flat_size()}, DType::fp32, "second moments");
  block_groups_ = ctx.alloc(ctx.persistent, {table.flat_size() / kSegmentPadding}, DType::int8, "groups");
  if (ctx.dry) return;
  copy_to_device(ctx, block_groups_, groups_of_blocks(table).data());
  reset(ctx, options);
}

void Optimizer::reset(ExecContext& ctx, const AdamWOptions& options) {
  options_ = options;
  for (const StateTensor& tensor : state()) fill_zero(ctx, tensor.view);
}

std::vector<StateTensor> Optimizer::state() const {
  return {{"adamw.first_moments", m_}, {"adamw.second_moments", v_}};
}

void Optimizer::set_scalars(StepInputs& inputs) const {
  inputs.beta1 = options_.beta1;
  inputs.beta2 = options_.beta2;
  inputs.eps = options_.eps;
  inputs.clip = options_.clip;
  inputs.groups[kDecayGroup].weight_decay = options_.weight_decay;
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
              .block_groups = block_groups_,
              .begin = 0,
              .end = table_->flat_size()});
}

}  // namespace gradmill
