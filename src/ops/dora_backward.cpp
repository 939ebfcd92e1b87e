// SPDX-License-Identifier: Apache-2.0
// DoRA's backward: validation, cost, scratch and dispatch.
#include "ops/dora_backward.h"

#include "ops/bias_grad.h"

namespace gradmill {

void dora_backward(ExecContext& ctx, const DoraGradArgs& args) {
  const int64_t cols = args.y.cols();
  assert(args.y.shape.rank() == 2 && args.dy.shape == args.y.shape && args.dz.shape == args.y.shape);
  assert(args.dy.dtype == args.y.dtype && args.dz.dtype == args.y.dtype);
  assert(args.gain.numel() == cols && args.magnitude.numel() == cols && args.dmagnitude.numel() == cols);
  assert(args.gain.dtype == DType::fp32 && args.magnitude.dtype == DType::fp32 && args.dmagnitude.dtype == DType::fp32);
  assert(!args.bias.defined() || (args.bias.numel() == cols && args.bias.dtype == args.y.dtype));
  const ArenaScope scope(ctx.scratch);
  const RowChunks chunks = bias_grad_chunks(ctx.device, args.dy);
  const TensorView partials = ctx.alloc_scratch({chunks.count, cols}, DType::fp32, "magnitude partials");
  const OpCost cost{.flops = 4 * double(args.y.numel()), .bytes = 3 * double(args.y.bytes())};
  run_op(ctx, "dora_backward", args.y.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { dora_backward<D, T>(ctx, args, partials); });
}

}  // namespace gradmill
