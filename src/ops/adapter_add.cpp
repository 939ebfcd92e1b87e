// SPDX-License-Identifier: Apache-2.0
// Adds a low-rank adapter to an output: validation, cost, and the choice between one kernel and two.
#include "ops/adapter_add.h"

#include "ops/matmul/matmul.h"
#include "ops/scale_columns.h"

namespace gradmill {
namespace {

// Decided only by what a dry run also knows.
bool is_fused(const DeviceSpec& device, const AdapterAddArgs& args) {
  if (device.kind != DeviceKind::cuda || args.y.dtype == DType::fp32) return false;
  const int needs = args.y.dtype == DType::bf16 ? 80 : 75;
  return device.compute_capability >= needs && args.h.cols() <= kMostFusedRank;
}

// For fp32, the GEMM adds to y. For narrow types, the GEMM writes fp32, and y is rounded once.
void add_in_two(ExecContext& ctx, const AdapterAddArgs& args) {
  const ArenaScope scope(ctx.scratch);
  const bool wide = args.y.dtype == DType::fp32;
  const TensorView product = wide ? args.y : ctx.alloc_scratch(args.y.shape, DType::fp32, "adapter output");
  matmul(
      ctx,
      {.a = args.h, .b = args.b, .c = product, .transpose_b = true, .alpha = args.scale, .beta = wide ? 1.0f : 0.0f});
  if (wide && !args.gain.defined() && !args.bias.defined() && !args.kept.defined()) return;
  scale_columns(ctx, {.x = args.y,
                      .addend = wide ? TensorView{} : product,
                      .gain = args.gain,
                      .bias = args.bias,
                      .y = args.y,
                      .copy = args.kept});
}

}  // namespace

void adapter_add(ExecContext& ctx, const AdapterAddArgs& args) {
  assert(args.y.shape.rank() == 2 && args.h.shape.rank() == 2 && args.b.shape.rank() == 2);
  assert(args.h.rows() == args.y.rows() && args.b.rows() == args.y.cols() && args.b.cols() == args.h.cols());
  assert(args.h.dtype == args.y.dtype && args.b.dtype == args.y.dtype && args.b.contiguous());
  assert(!args.gain.defined() || (args.gain.numel() == args.y.cols() && args.gain.dtype == DType::fp32));
  assert(!args.bias.defined() || (args.bias.numel() == args.y.cols() && args.bias.dtype == args.y.dtype));
  assert(!args.kept.defined() || (args.kept.shape == args.y.shape && args.kept.dtype == args.y.dtype));
  if (!is_fused(ctx.device, args)) return add_in_two(ctx, args);
  const double tensors = args.kept.defined() ? 3 : 2;
  const OpCost cost{.flops = 2 * double(args.y.numel()) * double(args.h.cols()),
                    .bytes = tensors * double(args.y.bytes()) + double(args.h.bytes() + args.b.bytes())};
  run_op(ctx, "adapter_add", args.y.dtype, TypeList<Bf16, Fp16>{}, cost, [&]<Device D, class T>() {
    if constexpr (D == Device::cuda) adapter_add<D, T>(ctx, args);
  });
}

}  // namespace gradmill
