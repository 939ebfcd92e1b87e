// SPDX-License-Identifier: Apache-2.0
// Sums by sequence: validation, cost and dispatch.
#include "ops/sequence_sums.h"

namespace gradmill {

void sequence_sums(ExecContext& ctx, const SequenceSumsArgs& args) {
  assert(args.values.contiguous() && args.sums.contiguous() && args.sums.dtype == DType::fp32);
  assert(args.cu.dtype == DType::int32 && args.cu.numel() == args.sums.numel() + 1);
  const OpCost cost{.flops = double(args.values.numel()), .bytes = double(args.values.bytes() + args.sums.bytes())};
  run_op(ctx, "sequence_sums", args.values.dtype, Fp32Only{}, cost,
         [&]<Device D, class T>() { sequence_sums<D, T>(ctx, args); });
}

}  // namespace gradmill
