// SPDX-License-Identifier: Apache-2.0
// MLP activations: validation, cost and dispatch.
#include "ops/activation.h"

namespace gradmill {

void activation_forward(ExecContext& ctx, const ActivationArgs& args) {
  const TensorView& y = args.y.plain;
  assert(args.x.shape.rank() == 2 && y.shape.rank() == 2 && y.rows() == args.x.rows() && y.dtype == args.x.dtype);
  assert(args.x.cols() == (is_gated(args.kind) ? 2 : 1) * y.cols());
  assert(!args.y.rows.defined() && !args.y.cols.defined());
  const OpCost cost{.flops = 30 * double(y.numel()), .bytes = double(args.x.bytes() + y.bytes())};
  run_op(ctx, "activation_forward", args.x.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { activation_forward<D, T>(ctx, args); });
}

void activation_backward(ExecContext& ctx, const ActivationGradArgs& args) {
  assert(args.x.shape.rank() == 2 && args.dy.rows() == args.x.rows() && args.dx.shape == args.x.shape);
  assert(args.x.cols() == (is_gated(args.kind) ? 2 : 1) * args.dy.cols());
  assert(args.dy.dtype == args.x.dtype && args.dx.dtype == args.x.dtype);
  const OpCost cost{.flops = 35 * double(args.dy.numel()), .bytes = double(2 * args.x.bytes() + args.dy.bytes())};
  run_op(ctx, "activation_backward", args.x.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { activation_backward<D, T>(ctx, args); });
}

}  // namespace gradmill
