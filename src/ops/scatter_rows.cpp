// SPDX-License-Identifier: Apache-2.0
#include "ops/scatter_rows.h"

namespace gradmill {

void scatter_rows(ExecContext& ctx, const ScatterRowsArgs& args) {
  assert(args.from.shape.rank() == 2 && args.to.shape.rank() == 2 && args.from.cols() == args.to.cols());
  assert(args.from.dtype == args.to.dtype && args.from.rows() <= args.to.rows());
  assert(args.indices.dtype == DType::int32 && args.indices.numel() == args.from.rows());
  const OpCost cost{.bytes = 2 * double(args.from.bytes()) + double(args.indices.bytes())};
  run_op(ctx, "scatter_rows", args.from.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { scatter_rows<D, T>(ctx, args); });
}

}  // namespace gradmill
