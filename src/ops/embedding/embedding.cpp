// SPDX-License-Identifier: Apache-2.0
// Table lookup: validation, cost, scratch and dispatch.
#include "ops/embedding/embedding.h"

#include <array>

#include "ops/dropout.h"

namespace gradmill {
namespace {

void validate(const EmbeddingGradArgs& args, const TensorView& dy) {
  assert(args.dtable.shape.rank() == 2 && args.dtable.dtype == DType::fp32 && args.dtable.cols() == dy.cols());
  assert(args.dtable.contiguous());
  assert(args.indices.numel() == dy.rows() && args.indices.dtype == DType::int32);
  assert(args.dy.data == dy.data && args.dy.shape == dy.shape && args.dy.row_stride == dy.row_stride);
  (void)args, (void)dy;
}

EmbeddingGradScratch alloc_grad_scratch(ExecContext& ctx, const EmbeddingGradArgs& args) {
  EmbeddingGradScratch scratch;
  const bool on_cpu = ctx.device.kind == DeviceKind::cpu;
  const int64_t rows = args.dy.rows(), cols = args.dy.cols(), entries = args.dtable.rows();
  const int64_t tiles = (rows + kEmbeddingTile - 1) / kEmbeddingTile;
  const int64_t chunks = (rows + kEmbeddingChunk - 1) / kEmbeddingChunk;
  if (!on_cpu && has_few_entries(args.dtable)) {
    scratch.partials = ctx.alloc_scratch({tiles, entries, cols}, DType::fp32, "embedding partials");
    return scratch;
  }
  scratch.order = ctx.alloc_scratch(on_cpu ? Shape{rows} : Shape{4, rows}, DType::int32, "embedding order");
  scratch.offsets = ctx.alloc_scratch(on_cpu ? Shape{entries + 1} : Shape{tiles, kEmbeddingDigits}, DType::int32,
                                      "embedding offsets");
  if (!on_cpu) scratch.partials = ctx.alloc_scratch({chunks, cols}, DType::fp32, "embedding partials");
  return scratch;
}

}  // namespace

void embedding_forward(ExecContext& ctx, const EmbeddingArgs& args) {
  assert(args.table.shape.rank() == 2 && args.table.cols() == args.y.cols() && args.table.dtype == args.y.dtype);
  assert(args.indices.numel() == args.y.rows() && args.indices.dtype == DType::int32);
  assert(args.position_indices.defined() == args.position_table.defined());
  assert(!args.position_table.defined() ||
         (args.position_table.cols() == args.y.cols() && args.position_table.dtype == args.y.dtype &&
          args.position_indices.numel() == args.y.rows() && args.position_indices.dtype == DType::int32));
  assert(!args.type_table.defined() ||
         (args.type_table.cols() == args.y.cols() && args.type_table.dtype == args.y.dtype));
  assert(!args.type_indices.defined() || (args.type_table.defined() && args.type_indices.numel() == args.y.rows() &&
                                          args.type_indices.dtype == DType::int32));
  const double tables = 1 + (args.position_table.defined() ? 1 : 0) + (args.type_table.defined() ? 1 : 0);
  const OpCost cost{.flops = tables * double(args.y.numel()), .bytes = (1 + tables) * double(args.y.bytes())};
  run_op(ctx, "embedding_forward", args.y.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { embedding_forward<D, T>(ctx, args); });
  // A GPU applies dropout in the same pass.
  if (args.dropout && ctx.device.kind == DeviceKind::cpu) {
    dropout(ctx, {.x = args.y, .y = args.y, .site = args.dropout_site});
  }
}

void embedding_backward(ExecContext& ctx, const EmbeddingGradArgs& args) {
  embedding_backward(ctx, std::span(&args, 1));
}

void embedding_backward(ExecContext& ctx, std::span<const EmbeddingGradArgs> tables) {
  assert(tables.size() <= kMaxEmbeddingTables);
  if (tables.empty()) return;
  const ArenaScope scope(ctx.scratch);
  std::array<EmbeddingGradScratch, kMaxEmbeddingTables> scratch;
  const TensorView& dy = tables.front().dy;
  OpCost cost{.bytes = double(dy.bytes())};
  for (size_t i = 0; i < tables.size(); ++i) {
    validate(tables[i], dy);
    scratch[i] = alloc_grad_scratch(ctx, tables[i]);
    // For any beta, the rows in use are read and written. With beta 0 the whole table is written.
    cost.bytes += tables[i].beta == 0 ? double(tables[i].dtable.bytes()) : 2 * 4 * double(dy.numel());
    cost.flops += 2 * double(dy.numel());
  }
  run_op(ctx, "embedding_backward", dy.dtype, FloatTypes{}, cost,
         [&]<Device D, class T>() { embedding_backward<D, T>(ctx, tables, std::span(scratch).first(tables.size())); });
}

}  // namespace gradmill
