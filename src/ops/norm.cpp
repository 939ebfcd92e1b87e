// SPDX-License-Identifier: Apache-2.0
// Norms: validation, cost, scratch and dispatch.
#include "ops/norm.h"

#include "ops/row_chunks.h"

namespace gradmill {
namespace {

void validate(const NormArgs& args) {
  assert(args.x.shape.rank() == 2 && args.y.plain.shape == args.x.shape && args.y.plain.dtype == args.x.dtype);
  assert(args.weight.numel() == args.x.cols() && args.rstd.numel() == args.x.rows());
  assert(args.delta.defined() == args.sum.defined());
  assert(args.mean.defined() == (args.kind == NormKind::layer));
  assert(!args.y.rows.defined() && !args.y.cols.defined());
  (void)args;
}

}  // namespace

void norm_forward(ExecContext& ctx, const NormArgs& args) {
  validate(args);
  const double numel = double(args.x.numel());
  const double tensors = args.delta.defined() ? 4 : 2;
  const OpCost cost{.flops = 8 * numel, .bytes = tensors * double(args.x.bytes())};
  run_op(ctx, "norm_forward", args.x.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { norm_forward<D, T>(ctx, args); });
}

void norm_rebuild(ExecContext& ctx, const NormArgs& args) {
  const OpCost cost{.flops = 4 * double(args.x.numel()), .bytes = 2 * double(args.x.bytes())};
  run_op(ctx, "norm_rebuild", args.x.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { norm_rebuild<D, T>(ctx, args); });
}

void norm_backward(ExecContext& ctx, const NormGradArgs& args) {
  assert(args.dy.shape == args.sum.shape && args.dx.shape == args.sum.shape);
  assert(args.mean.defined() == (args.kind == NormKind::layer));
  const ArenaScope scope(ctx.scratch);
  const RowChunks chunks = row_chunks(args.sum.rows(), ctx.device, 1, 1);
  const TensorView partials = ctx.alloc_scratch({2, chunks.count, args.sum.cols()}, DType::fp32, "norm partials");
  const double tensors = args.dresidual.defined() ? 4 : 3;
  const OpCost cost{.flops = 14 * double(args.sum.numel()), .bytes = tensors * double(args.sum.bytes())};
  run_op(ctx, "norm_backward", args.sum.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { norm_backward<D, T>(ctx, args, partials); });
}

}  // namespace gradmill
