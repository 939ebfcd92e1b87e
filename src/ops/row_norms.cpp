// SPDX-License-Identifier: Apache-2.0
// Squared norms of rows: validation, cost and dispatch.
#include "ops/row_norms.h"

namespace gradmill {

void row_norms(ExecContext& ctx, const RowNormsArgs& args) {
  assert(args.x.shape.rank() == 2 && args.squares.numel() == args.x.rows() && args.squares.dtype == DType::fp32);
  const OpCost cost{.flops = 2 * double(args.x.numel()), .bytes = double(args.x.bytes() + args.squares.bytes())};
  run_op(ctx, "row_norms", args.x.dtype, FloatTypes{}, cost, [&]<Device D, class T>() { row_norms<D, T>(ctx, args); });
}

}  // namespace gradmill
