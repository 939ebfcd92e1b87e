// SPDX-License-Identifier: Apache-2.0
// Gradient of a bias: validation, cost, scratch and dispatch.
#include "ops/bias_grad.h"

#include "ops/row_chunks.h"

namespace gradmill {

void bias_grad(ExecContext& ctx, const BiasGradArgs& args) {
  assert(args.dy.shape.rank() == 2 && args.dbias.numel() == args.dy.cols() && args.dbias.dtype == DType::fp32);
  const ArenaScope scope(ctx.scratch);
  const RowChunks chunks = row_chunks(args.dy.rows());
  const TensorView partials = ctx.alloc_scratch({chunks.count, args.dy.cols()}, DType::fp32, "bias partials");
  const OpCost cost{.flops = double(args.dy.numel()), .bytes = double(args.dy.bytes() + args.dbias.bytes())};
  run_op(ctx, "bias_grad", args.dy.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { bias_grad<D, T>(ctx, args, partials); });
}

}  // namespace gradmill
