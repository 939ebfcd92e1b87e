// SPDX-License-Identifier: Apache-2.0
// DoRA's gains: validation, cost and dispatch.
#include "ops/dora_gain.h"

namespace gradmill {

void dora_gain(ExecContext& ctx, const DoraGainArgs& args) {
  const int64_t rows = args.b.rows(), rank = args.b.cols();
  assert(args.product.shape == args.b.shape && args.gram.shape == (Shape{rank, rank}));
  assert(args.b.contiguous() && args.product.contiguous() && args.gram.contiguous());
  assert(args.product.dtype == DType::fp32 && args.gram.dtype == DType::fp32);
  assert(args.base_norms.numel() == rows && args.gain.numel() == rows);
  assert(args.base_norms.dtype == DType::fp32 && args.gain.dtype == DType::fp32);
  assert(!args.magnitude.defined() || (args.magnitude.numel() == rows && args.magnitude.dtype == DType::fp32));
  const OpCost cost{.flops = 2 * double(rows) * double(rank) * double(rank),
                    .bytes = double(args.product.bytes() + args.b.bytes() + 3 * args.gain.bytes())};
  run_op(ctx, "dora_gain", args.b.dtype, FloatTypes{}, cost, [&]<Device D, class T>() { dora_gain<D, T>(ctx, args); });
}

}  // namespace gradmill
