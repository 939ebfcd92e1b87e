// SPDX-License-Identifier: Apache-2.0
// The optimiser's update: validation, cost, scratch and dispatch.
#include "ops/adamw.h"

namespace gradmill {
namespace {

void validate(const AdamWArgs& args) {
  assert(0 <= args.begin && args.begin <= args.end && args.end <= args.master.numel());
  for (const TensorView* view : {&args.master, &args.grads, &args.m, &args.v}) {
    assert(view->dtype == DType::fp32 && view->shape == args.master.shape && view->shape.rank() == 1);
    (void)view;
  }
  assert(!args.compute.defined() || args.compute.shape == args.master.shape);
  assert(args.block_groups.dtype == DType::int8 && args.block_groups.numel() * kSegmentPadding == args.master.numel());
}

}  // namespace

void prepare_update(ExecContext& ctx, const TensorView& grads) {
  assert(grads.shape.rank() == 1 && grads.contiguous());
  const ArenaScope scope(ctx.scratch);
  const int64_t chunks = std::max<int64_t>(1, (grads.numel() + kNormChunk - 1) / kNormChunk);
  const TensorView partials = ctx.alloc_scratch({chunks}, DType::fp32, "gradient norm partials");
  const OpCost cost{.flops = 2 * double(grads.numel()), .bytes = double(grads.bytes())};
  run_op(ctx, "prepare_update", grads.dtype, Fp32Only{}, cost,
         [&]<Device D, class T>() { prepare_update<D, T>(ctx, grads, partials); });
}

void adamw(ExecContext& ctx, const AdamWArgs& args) {
  validate(args);
  const DType dtype = args.compute.defined() ? args.compute.dtype : DType::fp32;
  const double count = double(args.end - args.begin);
  const double compute_bytes = args.compute.defined() ? double(size_of(dtype)) : 0;
  const OpCost cost{.flops = 15 * count, .bytes = (7 * 4 + compute_bytes) * count};
  run_op(ctx, "adamw", dtype, FloatTypes{}, cost, [&]<Device D, class T>() { adamw<D, T>(ctx, args); });
}

}  // namespace gradmill
