// SPDX-License-Identifier: Apache-2.0
// Dropout: validation, cost and dispatch.
#include "ops/dropout.h"

namespace gradmill {

void dropout(ExecContext& ctx, const DropoutArgs& args) {
  assert(args.x.shape.rank() == 2 && args.y.shape == args.x.shape && args.y.dtype == args.x.dtype);
  assert(!args.tokens.defined() || (args.tokens.dtype == DType::int32 && args.tokens.numel() == args.x.rows()));
  assert(args.probability < 1 && !(args.add && args.x.data != nullptr && args.x.data == args.y.data));
  // Seven rounds of Philox with ten operations each, per eight elements.
  const OpCost cost{.flops = 9 * double(args.x.numel()),
                    .bytes = double(args.x.bytes() + args.y.bytes() * (args.add ? 2 : 1))};
  run_op(ctx, "dropout", args.x.dtype, FloatTypes{}, cost, [&]<Device D, class T>() { dropout<D, T>(ctx, args); });
}

}  // namespace gradmill
