// SPDX-License-Identifier: Apache-2.0
// MLP activations: validation, cost and dispatch.
#include "ops/activation.h"

#include "ops/bias_grad.h"

namespace gradmill {

void activation_forward(ExecContext& ctx, const ActivationArgs& args) {
  const TensorView& y = args.y.plain;
  assert(args.x.shape.rank() == 2 && y.shape.rank() == 2 && y.rows() == args.x.rows() && y.dtype == args.x.dtype);
  assert(args.x.cols() == (is_gated(args.kind) ? 2 : 1) * y.cols());
  const OpCost cost{.flops = 30 * double(y.numel()), .bytes = double(args.x.bytes() + y.bytes())};
  run_op(ctx, "activation_forward", args.x.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { activation_forward<D, T>(ctx, args); });
}

void activation_backward(ExecContext& ctx, const ActivationGradArgs& args) {
  assert(args.x.shape.rank() == 2 && args.dy.rows() == args.x.rows() && args.dx.plain.shape == args.x.shape);
  assert(args.x.cols() == (is_gated(args.kind) ? 2 : 1) * args.dy.cols());
  assert(args.dy.dtype == args.x.dtype && args.dx.plain.dtype == args.x.dtype);
  assert(!args.dbias.defined() || (args.dbias.numel() == args.dx.plain.cols() && args.dbias.dtype == DType::fp32));
  // A GPU computes everything in one pass, except the sums of bias gradients of gated kinds, which no known model has.
  const bool gpu = ctx.device.kind == DeviceKind::cuda, sums = gpu && args.dbias.defined() && !is_gated(args.kind);
  if (args.y.plain.defined() && !gpu) activation_forward(ctx, {.kind = args.kind, .x = args.x, .y = args.y});
  {
    const ArenaScope scope(ctx.scratch);
    TensorView partials;
    if (sums) {
      const int64_t count = bias_grad_chunks(ctx.device, args.dx.plain).count;
      partials = ctx.alloc_scratch({count, args.dx.plain.cols()}, DType::fp32, "bias partials");
    }
    const size_t bytes =
        2 * args.x.bytes() + args.dy.bytes() + (gpu && args.y.plain.defined() ? args.y.plain.bytes() : 0);
    const OpCost cost{.flops = 35 * double(args.dy.numel()), .bytes = double(bytes)};
    run_op(ctx, "activation_backward", args.x.dtype, FloatTypes{}, cost,
           [&]<Device D, class T>() { activation_backward<D, T>(ctx, args, partials); });
  }
  if (args.dbias.defined() && !sums) bias_grad(ctx, {.dy = args.dx.plain, .dbias = args.dbias, .beta = args.bias_beta});
}

}  // namespace gradmill
