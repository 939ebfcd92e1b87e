// SPDX-License-Identifier: Apache-2.0
// Copy with zero padding: validation, cost and dispatch.
#include "ops/zero_extend.h"

namespace gradmill {

void zero_extend(ExecContext& ctx, const ZeroExtendArgs& args) {
  assert(args.from.contiguous() && args.to.contiguous() && args.from.dtype == args.to.dtype);
  assert(args.from.numel() <= args.to.numel());
  const OpCost cost{.bytes = double(args.from.bytes()) + double(args.to.bytes())};
  run_op(ctx, "zero_extend", args.to.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { zero_extend<D, T>(ctx, args); });
}

}  // namespace gradmill
