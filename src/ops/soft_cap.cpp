// SPDX-License-Identifier: Apache-2.0
// Soft caps: validation, cost and dispatch.
#include "ops/soft_cap.h"

namespace gradmill {

void soft_cap_forward(ExecContext& ctx, const SoftCapArgs& args) {
  assert(args.x.shape.rank() == 2 && args.y.shape == args.x.shape && args.y.dtype == args.x.dtype && args.cap > 0);
  const OpCost cost{.flops = 20 * double(args.x.numel()), .bytes = 2 * double(args.x.bytes())};
  run_op(ctx, "soft_cap_forward", args.x.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { soft_cap_forward<D, T>(ctx, args); });
}

void soft_cap_backward(ExecContext& ctx, const SoftCapGradArgs& args) {
  assert(args.x.shape.rank() == 2 && args.dy.shape == args.x.shape && args.dx.shape == args.x.shape && args.cap > 0);
  assert(args.dy.dtype == args.x.dtype && args.dx.dtype == args.x.dtype);
  const OpCost cost{.flops = 22 * double(args.x.numel()), .bytes = 3 * double(args.x.bytes())};
  run_op(ctx, "soft_cap_backward", args.x.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { soft_cap_backward<D, T>(ctx, args); });
}

}  // namespace gradmill
