// SPDX-License-Identifier: Apache-2.0
// Quantised frozen weights: validation, cost and dispatch.
#include "ops/quantise.h"

namespace gradmill {
namespace {

OpCost validate(const QuantiseArgs& args) {
  assert(args.values.shape.rank() == 2 && args.values.contiguous());
  [[maybe_unused]] const QuantisedShapes shapes = quantised_shapes(args.format, args.values.rows(), args.values.cols());
  assert(args.codes.shape == shapes.codes && args.codes.dtype == DType::int8);
  assert(args.scales.shape == shapes.scales && args.scales.dtype == DType::fp32);
  return {.flops = double(args.values.numel()),
          .bytes = double(args.values.bytes() + args.codes.bytes() + args.scales.bytes())};
}

}  // namespace

QuantisedShapes quantised_shapes(WeightFormat format, int64_t rows, int64_t cols) {
  if (format == WeightFormat::int8) return {Shape{rows, cols}, Shape{rows}};
  assert(format == WeightFormat::nf4);
  const int64_t size = rows * cols;
  return {Shape{(size + 1) / 2}, Shape{(size + kNf4Block - 1) / kNf4Block}};
}

void quantise(ExecContext& ctx, const QuantiseArgs& args) {
  run_op(ctx, "quantise", args.values.dtype, FloatTypes{}, validate(args),
         [&]<Device D, class T>() { quantise<D, T>(ctx, args); });
}

void dequantise(ExecContext& ctx, const QuantiseArgs& args) {
  run_op(ctx, "dequantise", args.values.dtype, FloatTypes{}, validate(args),
         [&]<Device D, class T>() { dequantise<D, T>(ctx, args); });
}

}  // namespace gradmill
