// SPDX-License-Identifier: Apache-2.0
// Gradient of a bias: validation, cost, scratch and dispatch.
#include "ops/bias_grad.h"

namespace gradmill {

RowChunks bias_grad_chunks(const DeviceSpec& device, const TensorView& dy) {
  const int64_t row_bytes = dy.cols() * static_cast<int64_t>(size_of(dy.dtype));
  // A block of a GPU sums 512 bytes of columns.
  return row_chunks(dy.rows(), device, 4, (row_bytes + 511) / 512);
}

void bias_grad(ExecContext& ctx, const BiasGradArgs& args) {
  assert(args.dy.shape.rank() == 2 && args.dbias.numel() == args.dy.cols() && args.dbias.dtype == DType::fp32);
  const ArenaScope scope(ctx.scratch);
  const RowChunks chunks = bias_grad_chunks(ctx.device, args.dy);
  const TensorView partials = ctx.alloc_scratch({chunks.count, args.dy.cols()}, DType::fp32, "bias partials");
  const OpCost cost{.flops = double(args.dy.numel()), .bytes = double(args.dy.bytes() + args.dbias.bytes())};
  run_op(ctx, "bias_grad", args.dy.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { bias_grad<D, T>(ctx, args, partials); });
}

}  // namespace gradmill
