// SPDX-License-Identifier: Apache-2.0
// GEMM: validation, cost and dispatch. It is not a template over dtypes, because GEMM libraries take them as values.
#include "ops/matmul/matmul.h"

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
  assert(args.batch.count == 1 || !args.bias.defined());
  (void)args;
}

MatmulArgs part_of(const MatmulArgs& args, int64_t index) {
  MatmulArgs part = args;
  part.batch = {};
  part.a = args.a.shifted(index * args.batch.a);
  part.b = args.b.shifted(index * args.batch.b);
  part.c = args.c.shifted(index * args.batch.c);
  return part;
}

TensorView as_fp32(ExecContext& ctx, const TensorView& from) {
  if (!from.defined() || from.dtype == DType::fp32) return from;
  const TensorView to = ctx.alloc_scratch(from.shape, DType::fp32, "matmul fp32 copy");
  convert(ctx, {.from = from, .to = to});
  return to;
}

// One call of the device's GEMM library.
void run_library(ExecContext& ctx, const MatmulArgs& args, const OpCost& cost) {
  run_op(ctx, product_name(ctx, "matmul", args), args.a.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { matmul<D>(ctx, args); });
}

// For narrow types that the device cannot multiply: multiplies fp32 copies and rounds once, like matrix units do.
void matmul_through_fp32(ExecContext& ctx, const MatmulArgs& args, const OpCost& cost) {
  const ArenaScope scope(ctx.scratch);
  MatmulArgs wide = args;
  wide.a = as_fp32(ctx, args.a);
  wide.b = as_fp32(ctx, args.b);
  wide.bias = as_fp32(ctx, args.bias);
  if (args.c.dtype == DType::fp32) return run_library(ctx, wide, cost);
  wide.c = ctx.alloc_scratch(args.c.shape, DType::fp32, "matmul fp32 copy");
  wide.beta = 0;
  run_library(ctx, wide, cost);
  convert(ctx, {.from = wide.c, .to = args.c, .beta = args.beta});
}

// The library adds a bias in c's dtype.
void matmul_on_gpu(ExecContext& ctx, const MatmulArgs& args, const OpCost& cost) {
  const ArenaScope scope(ctx.scratch);
  MatmulArgs call = args;
  if (args.c.dtype == DType::fp32) call.bias = as_fp32(ctx, args.bias);
  run_library(ctx, call, cost);
}

// CPUs multiply only fp32; GPUs before Ampere do not support bf16.
bool lacks(const DeviceSpec& device, DType dtype) {
  if (device.kind == DeviceKind::cpu) return dtype != DType::fp32;
  return dtype == DType::bf16 && device.compute_capability < 80;
}

}  // namespace

std::string product_name(const ExecContext& ctx, std::string_view op, const MatmulArgs& args) {
  if (ctx.ledger == nullptr || !ctx.ledger->by_shape()) return std::string(op);
  const std::string count = args.batch.count == 1 ? "" : fmt::format("{} of ", args.batch.count);
  return fmt::format("{} {}{}x{}x{} {}{}", op, count, args.c.rows(), args.c.cols(),
                     args.transpose_a ? args.a.rows() : args.a.cols(), args.transpose_a ? 't' : 'n',
                     args.transpose_b ? 't' : 'n');
}

template <>
void matmul<Device::cpu>(ExecContext& ctx, const MatmulArgs& args) {
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
             .alpha = args.alpha,
             .beta = args.beta},
            args.bias.defined() ? args.bias.ptr<float>() : nullptr);
}

void matmul(ExecContext& ctx, const MatmulArgs& args) {
  validate(args);
  const bool at_once = ctx.device.kind == DeviceKind::cuda && !lacks(ctx.device, args.a.dtype);
  if (args.batch.count > 1 && !at_once) {
    for (int64_t i = 0; i < args.batch.count; ++i) matmul(ctx, part_of(args, i));
    return;
  }
  const double k = double(args.transpose_a ? args.a.rows() : args.a.cols());
  const double count = double(args.batch.count);
  const size_t bytes = args.a.bytes() + args.b.bytes() + args.c.bytes() * (args.beta == 0 ? 1 : 2);
  const OpCost cost{.flops = count * 2 * double(args.c.numel()) * k, .bytes = count * double(bytes), .matrix = true};
  if (lacks(ctx.device, args.a.dtype)) return matmul_through_fp32(ctx, args, cost);
  if (ctx.device.kind == DeviceKind::cpu) return run_library(ctx, args, cost);
  matmul_on_gpu(ctx, args, cost);
}

}  // namespace gradmill
