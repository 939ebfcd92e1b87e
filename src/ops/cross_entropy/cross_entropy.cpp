// SPDX-License-Identifier: Apache-2.0
// Cross-entropy: validation, cost and dispatch.
#include "ops/cross_entropy/cross_entropy.h"

namespace gradmill {

void cross_entropy(ExecContext& ctx, const CrossEntropyArgs& args) {
  assert(args.logits.shape.rank() == 2 && args.logits.cols() > 0);
  assert(args.targets.numel() == args.logits.rows() && args.targets.dtype == DType::int32);
  assert(args.losses.numel() == args.logits.rows() && args.losses.dtype == DType::fp32);
  assert(!args.weights.defined() || (args.weights.numel() == args.logits.rows() && args.weights.contiguous() &&
                                     args.weights.dtype == DType::fp32));
  const OpCost cost{.flops = 25 * double(args.logits.numel()),
                    .bytes = (args.write_grad ? 2 : 1) * double(args.logits.bytes())};
  run_op(ctx, "cross_entropy", args.logits.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { cross_entropy<D, T>(ctx, args); });
}

void add_loss_sum(ExecContext& ctx, const TensorView& losses) {
  assert(losses.contiguous());
  const OpCost cost{.flops = double(losses.numel()), .bytes = double(losses.bytes())};
  run_op(ctx, "add_loss_sum", losses.dtype, Fp32Only{}, cost,
         [&]<Device D, class T>() { add_loss_sum<D, T>(ctx, losses); });
}

}  // namespace gradmill
