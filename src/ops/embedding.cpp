// SPDX-License-Identifier: Apache-2.0
// Table look-up: validation, cost, scratch and dispatch.
#include "ops/embedding.h"

namespace gradmill {

void embedding_forward(ExecContext& ctx, const EmbeddingArgs& args) {
  assert(args.table.shape.rank() == 2 && args.table.cols() == args.y.cols() && args.table.dtype == args.y.dtype);
  assert(args.indices.numel() == args.y.rows() && args.indices.dtype == DType::int32);
  assert(args.position_indices.defined() == args.position_table.defined());
  assert(!args.position_table.defined() ||
         (args.position_table.cols() == args.y.cols() && args.position_table.dtype == args.y.dtype &&
          args.position_indices.numel() == args.y.rows() && args.position_indices.dtype == DType::int32));
  const double tables = args.position_table.defined() ? 2 : 1;
  const OpCost cost{.flops = tables * double(args.y.numel()), .bytes = (1 + tables) * double(args.y.bytes())};
  run_op(ctx, "embedding_forward", args.y.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { embedding_forward<D, T>(ctx, args); });
}

void embedding_backward(ExecContext& ctx, const EmbeddingGradArgs& args) {
  assert(args.dtable.shape.rank() == 2 && args.dtable.dtype == DType::fp32 && args.dtable.cols() == args.dy.cols());
  assert(args.indices.numel() == args.dy.rows() && args.indices.dtype == DType::int32);
  const ArenaScope scope(ctx.scratch);
  const TensorView order = ctx.alloc_scratch({args.dy.rows()}, DType::int32, "embedding order");
  const TensorView offsets = ctx.alloc_scratch({args.dtable.rows() + 1}, DType::int32, "embedding offsets");
  // Whatever beta is, the rows in use are read and written; with 0 the whole table is written.
  const double written = args.beta == 0 ? double(args.dtable.bytes()) : 2 * 4 * double(args.dy.numel());
  const OpCost cost{.flops = 2 * double(args.dy.numel()), .bytes = double(args.dy.bytes()) + written};
  run_op(ctx, "embedding_backward", args.dy.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { embedding_backward<D, T>(ctx, args, order, offsets); });
}

}  // namespace gradmill
