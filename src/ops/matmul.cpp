// SPDX-License-Identifier: Apache-2.0
// Matrix product: validation, cost and dispatch. It is not a template: a GEMM library takes dtypes as values.
#include "ops/matmul.h"

#include "cpu/gemm.h"
#include "ops/convert.h"

namespace gradmill {
namespace {

void validate(const MatmulArgs& args) {
  assert(args.a.dtype == args.b.dtype && (args.c.dtype == args.a.dtype || args.c.dtype == DType::fp32));
  assert(args.a.shape.rank() == 2 && args.b.shape.rank() == 2 && args.c.shape.rank() == 2);
  assert((args.transpose_a ? args.a.cols() : args.a.rows()) == args.c.rows());
  assert((args.transpose_b ? args.b.rows() : args.b.cols()) == args.c.cols());
  assert((args.transpose_a ? args.a.rows() : args.a.cols()) == (args.transpose_b ? args.b.cols() : args.b.rows()));
  assert(!args.bias.defined() || (args.bias.numel() == args.c.cols() && args.bias.dtype == args.a.dtype));
  (void)args;
}

void matmul_fp32(ExecContext& ctx, const MatmulArgs& args) {
  cpu::gemm(*ctx.pool,
            {.transpose_a = args.transpose_a,
             .transpose_b = args.transpose_b,
             .m = args.c.rows(),
             .n = args.c.cols(),
             .k = args.transpose_a ? args.a.rows() : args.a.cols(),
             .a = args.a.ptr<float>(),
             .lda = args.a.row_stride,
             .b = args.b.ptr<float>(),
             .ldb = args.b.row_stride,
             .c = args.c.ptr<float>(),
             .ldc = args.c.row_stride,
             .beta = args.beta},
            args.bias.defined() ? args.bias.ptr<float>() : nullptr);
}

TensorView as_fp32(ExecContext& ctx, const TensorView& from) {
  if (!from.defined()) return from;
  const TensorView to = ctx.alloc_scratch(from.shape, DType::fp32, "matmul fp32 copy");
  convert(ctx, {.from = from, .to = to});
  return to;
}

// Narrow types on the CPU: multiply fp32 copies and round once, as a GPU's matrix units do.
void matmul_through_fp32(ExecContext& ctx, const MatmulArgs& args, const OpCost& cost) {
  const ArenaScope scope(ctx.scratch);
  MatmulArgs wide = args;
  wide.a = as_fp32(ctx, args.a);
  wide.b = as_fp32(ctx, args.b);
  wide.bias = as_fp32(ctx, args.bias);
  if (args.c.dtype != DType::fp32) {
    wide.beta = 0;
    wide.c = ctx.alloc_scratch(args.c.shape, DType::fp32, "matmul fp32 copy");
  }
  run_op(ctx, "matmul", DType::fp32, Fp32Only{}, cost, [&]<Device D, class T>() { matmul_fp32(ctx, wide); });
  if (args.c.dtype != DType::fp32) convert(ctx, {.from = wide.c, .to = args.c, .beta = args.beta});
}

}  // namespace

void matmul(ExecContext& ctx, const MatmulArgs& args) {
  validate(args);
  const double k = double(args.transpose_a ? args.a.rows() : args.a.cols());
  const OpCost cost{.flops = 2 * double(args.c.numel()) * k,
                    .bytes = double(args.a.bytes() + args.b.bytes() + args.c.bytes() * (args.beta == 0 ? 1 : 2)),
                    .matrix = true};
  if (ctx.device.kind == DeviceKind::cpu && args.a.dtype != DType::fp32) return matmul_through_fp32(ctx, args, cost);
  run_op(ctx, "matmul", args.a.dtype, FloatTypes{}, cost, [&]<Device D, class T>() { matmul_fp32(ctx, args); });
}

}  // namespace gradmill
