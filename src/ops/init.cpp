// SPDX-License-Identifier: Apache-2.0
#include "ops/init.h"

namespace gradmill {

void init_values(ExecContext& ctx, const InitArgs& args) {
  assert(args.to.contiguous());
  run_op(ctx, "init_values", args.to.dtype, FloatTypes{}, {.bytes = double(args.to.bytes())},
         [&]<Device D, class T>() { init_values<D, T>(ctx, args); });
}

}  // namespace gradmill
