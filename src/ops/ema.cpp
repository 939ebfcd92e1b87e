// SPDX-License-Identifier: Apache-2.0
#include "ops/ema.h"

namespace gradmill {

void ema_update(ExecContext& ctx, const EmaArgs& args) {
  assert(args.average.shape == args.weights.shape && args.average.dtype == args.weights.dtype);
  const OpCost cost{.flops = 3 * double(args.average.numel()), .bytes = 3 * double(args.average.bytes())};
  run_op(ctx, "ema_update", args.average.dtype, Fp32Only{}, cost,
         [&]<Device D, class T>() { ema_update<D, T>(ctx, args); });
}

void exchange(ExecContext& ctx, const TensorView& a, const TensorView& b) {
  assert(a.shape == b.shape && a.dtype == b.dtype);
  const OpCost cost{.flops = 0, .bytes = 4 * double(a.bytes())};
  run_op(ctx, "exchange", a.dtype, Fp32Only{}, cost, [&]<Device D, class T>() { exchange<D, T>(ctx, a, b); });
}

}  // namespace gradmill
