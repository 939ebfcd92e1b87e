// SPDX-License-Identifier: Apache-2.0
// Column-wise scale and shift: validation, cost and dispatch.
#include "ops/scale_columns.h"

namespace gradmill {

void scale_columns(ExecContext& ctx, const ScaleColumnsArgs& args) {
  assert(args.x.shape.rank() == 2 && args.y.shape == args.x.shape && args.y.dtype == args.x.dtype);
  assert(!args.addend.defined() || (args.addend.shape == args.x.shape && args.addend.dtype == DType::fp32));
  assert(!args.gain.defined() || (args.gain.numel() == args.x.cols() && args.gain.dtype == DType::fp32));
  assert(!args.bias.defined() || (args.bias.numel() == args.x.cols() && args.bias.dtype == args.x.dtype));
  assert(!args.copy.defined() || (args.copy.shape == args.x.shape && args.copy.dtype == args.x.dtype));
  const size_t addend = args.addend.defined() ? args.addend.bytes() : 0;
  const OpCost cost{.flops = 2 * double(args.x.numel()),
                    .bytes = double(args.x.bytes() * (args.copy.defined() ? 3 : 2) + addend)};
  run_op(ctx, "scale_columns", args.x.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { scale_columns<D, T>(ctx, args); });
}

}  // namespace gradmill
