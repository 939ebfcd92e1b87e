// SPDX-License-Identifier: Apache-2.0
// A classifier's loss: validation, cost and dispatch.
#include "ops/label_loss.h"

namespace gradmill {

void label_loss(ExecContext& ctx, const LabelLossArgs& args) {
  const int64_t seqs = args.logits.rows(), labels = args.logits.cols();
  assert(args.logits.shape.rank() == 2 && labels > 0);
  assert(args.targets.numel() == seqs && args.targets.dtype == (labels == 1 ? DType::fp32 : DType::int32));
  assert(args.cu.numel() == seqs + 1 && args.cu.dtype == DType::int32);
  assert(args.losses.numel() == seqs && args.losses.dtype == DType::fp32);
  assert(!args.class_weights.defined() ||
         (labels > 1 && args.class_weights.numel() == labels && args.class_weights.dtype == DType::fp32));
  (void)seqs, (void)labels;
  const OpCost cost{.flops = 25 * double(args.logits.numel()), .bytes = 2 * double(args.logits.bytes())};
  run_op(ctx, "label_loss", args.logits.dtype, Fp32Only{}, cost,
         [&]<Device D, class T>() { label_loss<D, T>(ctx, args); });
}

}  // namespace gradmill
