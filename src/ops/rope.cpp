// SPDX-License-Identifier: Apache-2.0
// RoPE: validation, cost, scratch and dispatch.
#include "ops/rope.h"

#include <algorithm>

#include "ops/row_chunks.h"

namespace gradmill {
namespace {

// The number of partial sums for the gradients of the weights. On a GPU there is one per block: as many as run at once,
// but each with at least 128 heads. There must also be enough blocks for all heads of a row, of which a block has at
// least 8.
int64_t num_partials(const RopeArgs& args, int64_t rows, const DeviceSpec& device) {
  if (device.kind == DeviceKind::cpu) return row_chunks(rows).count;
  constexpr int64_t kBlocksPerUnit = 2, kHeadsPerBlock = 128, kHeadsAtOnce = 8;
  const int64_t all_heads = args.heads + args.kv_heads;
  const int64_t useful = (rows * all_heads + kHeadsPerBlock - 1) / kHeadsPerBlock;
  const int64_t least = (all_heads + kHeadsAtOnce - 1) / kHeadsAtOnce;
  return std::max(least, std::min(kBlocksPerUnit * device.num_units, useful));
}

// `rotated` is the tensor that is always defined: the forward's input or the backward's dout.
void validate(const RopeArgs& args, const TensorView& rotated) {
  assert(args.head_dim > 0 && args.head_dim % 2 == 0);
  assert(rotated.shape.rank() == 2 && rotated.cols() == (args.heads + args.kv_heads) * args.head_dim);
  assert(args.positions.dtype == DType::int32 && args.positions.numel() == rotated.rows());
  assert(args.cos_sin.dtype == DType::fp32 && args.cos_sin.cols() == args.head_dim && args.cos_sin.contiguous());
  assert(args.q_weight.defined() == args.k_weight.defined());
  for (const TensorView* weight : {&args.q_weight, &args.k_weight}) {
    assert(!weight->defined() || (weight->numel() == args.head_dim && weight->dtype == rotated.dtype));
    (void)weight;
  }
  (void)args, (void)rotated;
}

}  // namespace

void rope_forward(ExecContext& ctx, const RopeArgs& args) {
  validate(args, args.in);
  assert(args.out.shape == args.in.shape && args.out.dtype == args.in.dtype);
  assert(!args.q_weight.defined() || args.in.data == nullptr || args.out.data != args.in.data);
  const double flops = args.q_weight.defined() ? 7 : 3;
  const OpCost cost{.flops = flops * double(args.in.numel()), .bytes = 2 * double(args.in.bytes())};
  run_op(ctx, "rope_forward", args.in.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { rope_forward<D, T>(ctx, args); });
}

void rope_backward(ExecContext& ctx, const RopeGradArgs& args) {
  const bool normed = args.forward.q_weight.defined();
  validate(args.forward, args.dout);
  assert(args.din.shape == args.dout.shape && args.din.dtype == args.dout.dtype);
  assert(!normed || (args.forward.in.shape == args.dout.shape && args.forward.in.dtype == args.dout.dtype));
  assert(normed || (!args.dq_weight.defined() && !args.dk_weight.defined()));
  const ArenaScope scope(ctx.scratch);
  TensorView partials;
  if (normed) {
    const int64_t count = num_partials(args.forward, args.dout.rows(), ctx.device);
    partials = ctx.alloc_scratch({2, count, args.forward.head_dim}, DType::fp32, "rope partials");
  }
  const OpCost cost{.flops = (normed ? 16 : 3) * double(args.dout.numel()),
                    .bytes = (normed ? 3 : 2) * double(args.dout.bytes())};
  run_op(ctx, "rope_backward", args.dout.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { rope_backward<D, T>(ctx, args, partials); });
}

}  // namespace gradmill
