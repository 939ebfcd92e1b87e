// SPDX-License-Identifier: Apache-2.0
#include "ops/convert.h"

namespace gradmill {

void convert(ExecContext& ctx, const ConvertArgs& args) {
  assert(args.from.shape == args.to.shape);
  assert(args.from.dtype == DType::fp32 || args.to.dtype == DType::fp32);
  const DType narrow = args.from.dtype == DType::fp32 ? args.to.dtype : args.from.dtype;
  const OpCost cost{.flops = double(args.from.numel()), .bytes = double(args.from.bytes() + args.to.bytes())};
  run_op(ctx, "convert", narrow, FloatTypes{}, cost, [&]<Device D, class T>() { convert<D, T>(ctx, args); });
}

}  // namespace gradmill
