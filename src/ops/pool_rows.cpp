// SPDX-License-Identifier: Apache-2.0
// Pooled rows: validation, cost and dispatch.
#include "ops/pool_rows.h"

namespace gradmill {

void pool_rows_forward(ExecContext& ctx, const PoolRowsArgs& args) {
  assert(args.x.shape.rank() == 2 && args.y.shape.rank() == 2 && args.y.cols() == args.x.cols());
  assert(args.y.dtype == args.x.dtype);
  assert(args.cu.dtype == DType::int32 && args.cu.numel() == args.y.rows() + 1);
  const size_t read = args.kind == Pooling::mean ? args.x.bytes() : args.y.bytes();
  const OpCost cost{.flops = double(args.kind == Pooling::mean ? args.x.numel() : 0),
                    .bytes = double(read + args.y.bytes())};
  run_op(ctx, "pool_rows_forward", args.x.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { pool_rows_forward<D, T>(ctx, args); });
}

void pool_rows_backward(ExecContext& ctx, const PoolRowsGradArgs& args) {
  assert(args.dx.shape.rank() == 2 && args.dy.shape.rank() == 2 && args.dy.cols() == args.dx.cols());
  assert(args.dy.dtype == args.dx.dtype);
  assert(args.cu.dtype == DType::int32 && args.cu.numel() == args.dy.rows() + 1);
  const OpCost cost{.flops = double(args.dx.numel()), .bytes = double(args.dx.bytes() + args.dy.bytes())};
  run_op(ctx, "pool_rows_backward", args.dx.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { pool_rows_backward<D, T>(ctx, args); });
}

}  // namespace gradmill
