// SPDX-License-Identifier: Apache-2.0
// Norms: validation, cost, scratch and dispatch.
#include "ops/norm/norm.h"

#include "ops/bias_grad.h"
#include "ops/dropout.h"
#include "ops/row_chunks.h"

namespace gradmill {
namespace {

// A GPU performs an op in one pass. The CPU, whose caches make passes cheap, composes it of several ops.
bool in_one_pass(const ExecContext& ctx) { return ctx.device.kind == DeviceKind::cuda; }

void validate(const NormArgs& args) {
  assert(args.x.shape.rank() == 2 && args.y.plain.shape == args.x.shape && args.y.plain.dtype == args.x.dtype);
  assert(args.weight.numel() == args.x.cols() && args.weight.dtype == args.x.dtype);
  assert(!args.bias.defined() || (args.bias.numel() == args.x.cols() && args.bias.dtype == args.x.dtype));
  assert(args.rstd.numel() == args.x.rows() && args.rstd.dtype == DType::fp32);
  assert(args.mean.defined() == (args.kind == NormKind::layer));
  assert(!args.mean.defined() || (args.mean.numel() == args.x.rows() && args.mean.dtype == DType::fp32));
  (void)args;
}

void validate(const NormGradArgs& args) {
  for (const TensorView* like : {&args.dy, &args.dresidual, &args.dx, &args.dropped}) {
    assert(!like->defined() || (like->shape == args.sum.shape && like->dtype == args.sum.dtype));
    (void)like;
  }
  assert(args.sum.shape.rank() == 2 && args.dy.defined() && args.dx.defined());
  assert(args.weight.numel() == args.sum.cols() && args.weight.dtype == args.sum.dtype);
  assert(args.rstd.numel() == args.sum.rows() && args.rstd.dtype == DType::fp32);
  assert(args.mean.defined() == (args.kind == NormKind::layer));
  assert(!args.mean.defined() || (args.mean.numel() == args.sum.rows() && args.mean.dtype == DType::fp32));
  for (const TensorView* grad : {&args.dweight, &args.dbias, &args.dbranch_bias}) {
    assert(!grad->defined() || (grad->numel() == args.sum.cols() && grad->dtype == DType::fp32));
    (void)grad;
  }
}

// Whether the GEMM that computes delta can be fused with the norm. A dry run uses two ops, which need at least as much
// scratch.
bool joins_product(const ExecContext& ctx, const NormArgs& args) {
  if constexpr (kHasCuda) {
    return !ctx.dry && ctx.device.kind == DeviceKind::cuda && ctx.kernels.norms_in_products &&
           hopper_supports(ctx, args);
  }
  return false;
}

void norm_forward_of_product(ExecContext& ctx, const NormArgs& args) {
  const MatmulArgs product = matmul_args(args.product);
  const double tensors = 3;  // tensors of the norm's size besides the GEMM's operands
  const OpCost cost{.flops = 2 * double(product.c.numel()) * double(product.a.cols()),
                    .bytes = double(product.a.bytes() + product.b.bytes()) + tensors * double(product.c.bytes()),
                    .matrix = true};
  run_op(ctx, product_name(ctx, "matmul_norm", product), args.x.dtype, FloatTypes{}, cost, [&]<Device D, class T>() {
    if constexpr (D == Device::cuda && !std::is_same_v<T, float>) hopper_matmul_norm<T>(ctx, args);
  });
}

}  // namespace

void norm_forward(ExecContext& ctx, const NormArgs& args) {
  validate(args);
  assert(args.delta.defined() == args.sum.defined());
  assert(!args.delta.defined() || (args.delta.shape == args.x.shape && args.sum.shape == args.x.shape));
  assert(!args.delta.defined() || (args.delta.dtype == args.x.dtype && args.sum.dtype == args.x.dtype));
  assert(!args.dropout || args.delta.defined());
  if (args.product.defined()) {
    assert(args.product.c.data == args.delta.data);
    if (joins_product(ctx, args)) return norm_forward_of_product(ctx, args);
    run_product(ctx, args.product);
  }
  if (args.dropout && !in_one_pass(ctx)) {
    dropout(ctx, {.x = args.delta, .y = args.delta, .site = args.dropout_site});
  }
  const double numel = double(args.x.numel());
  const double tensors = args.delta.defined() ? 4 : 2;
  const OpCost cost{.flops = 8 * numel, .bytes = tensors * double(args.x.bytes())};
  run_op(ctx, "norm_forward", args.x.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { norm_forward<D, T>(ctx, args); });
}

void norm_rebuild(ExecContext& ctx, const NormArgs& args) {
  validate(args);
  const OpCost cost{.flops = 4 * double(args.x.numel()), .bytes = 2 * double(args.x.bytes())};
  run_op(ctx, "norm_rebuild", args.x.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { norm_rebuild<D, T>(ctx, args); });
}

void norm_backward(ExecContext& ctx, const NormGradArgs& args) {
  validate(args);
  const bool in_one = in_one_pass(ctx);
  if (args.y.plain.defined() && !in_one) {
    norm_rebuild(ctx, {.kind = args.kind,
                       .x = args.sum,
                       .weight = args.weight,
                       .bias = args.bias,
                       .mean = args.mean,
                       .rstd = args.rstd,
                       .y = args.y,
                       .weight_offset = args.weight_offset});
  }
  const bool branch = args.dbranch_bias.defined();
  {
    const ArenaScope scope(ctx.scratch);
    const RowChunks chunks = row_chunks(args.sum.rows(), ctx.device, 1, 1);
    const int64_t planes = in_one && branch ? 3 : args.dbias.defined() ? 2 : 1;
    const TensorView partials = ctx.alloc(in_one && args.later ? ctx.saved : ctx.scratch,
                                          {planes, chunks.count, args.sum.cols()}, DType::fp32, "norm partials");
    double tensors = args.dresidual.defined() ? 4 : 3;
    if (in_one) tensors += (args.y.plain.defined() ? 1 : 0) + (args.dropped.defined() ? 1 : 0);
    const OpCost cost{.flops = 14 * double(args.sum.numel()), .bytes = tensors * double(args.sum.bytes())};
    run_op(ctx, "norm_backward", args.sum.dtype, FloatTypes{}, cost,
           [&]<Device D, class T>() { norm_backward<D, T>(ctx, args, partials); });
  }
  if (in_one) return;
  if (args.dropped.defined()) dropout(ctx, {.x = args.dx, .y = args.dropped, .site = args.dropout_site});
  if (branch) {
    const TensorView& dy = args.dropped.defined() ? args.dropped : args.dx;
    bias_grad(ctx, {.dy = dy, .dbias = args.dbranch_bias, .beta = args.branch_beta});
  }
}

}  // namespace gradmill
