// SPDX-License-Identifier: Apache-2.0
// Ops on rows of activations.
#include <array>

#include "op_contracts.h"
#include "ops/convert.h"
#include "ops/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/find_non_finite.h"
#include "ops/norm/norm.h"
#include "ops/partial_sums.h"
#include "ops/pool_rows.h"
#include "ops/rope.h"
#include "ops/scatter_rows.h"
#include "ops/soft_cap.h"
#include "ops/zero_extend.h"

namespace gradmill::test {
namespace {

TEST_F(OpContracts, AddPartialSums) {
  expect_refused([](ExecContext& ctx, const PartialSum& sum) { add_partial_sums(ctx, std::span(&sum, 1)); },
                 PartialSum{.partials = fp32({3, 6}), .out = fp32({6})},
                 {{[](auto& sum) { sum.out = fp32({3}); }, "sum.out.numel() == sum.partials.cols()"},
                  {[](auto& sum) { sum.out = bf16({6}); }, "sum.out.dtype == DType::fp32"}});
}

TEST_F(OpContracts, Convert) {
  expect_refused(convert, ConvertArgs{.from = fp32({4, 6}), .to = bf16({4, 6})},
                 {{[](auto& args) {
                     args.to = bf16({6, 4});
                   },
                   "args.from.shape == args.to.shape"},
                  {[](auto& args) {
                     args.from = bf16({4, 6});
                   },
                   "args.to.dtype == DType::fp32"}});
}

TEST_F(OpContracts, Dropout) {
  expect_refused(dropout, DropoutArgs{.x = bf16({4, 6}), .y = bf16({4, 6}), .tokens = int32({4})},
                 {{[](auto& args) {
                     args.y = bf16({4, 7});
                   },
                   "args.y.shape == args.x.shape"},
                  {[](auto& args) { args.tokens = int32({6}); }, "args.tokens.numel() == args.x.rows()"},
                  {[](auto& args) { args.probability = 1; }, "args.probability < 1"}});
}

TEST_F(OpContracts, EmbeddingForward) {
  const EmbeddingArgs right{.indices = int32({4}),
                            .table = bf16({10, 6}),
                            .position_indices = int32({4}),
                            .position_table = bf16({5, 6}),
                            .y = bf16({4, 6})};
  expect_refused(embedding_forward, right,
                 {{[](auto& args) {
                     args.table = bf16({6, 10});
                   },
                   "args.table.cols() == args.y.cols()"},
                  {[](auto& args) { args.indices = int32({5}); }, "args.indices.numel() == args.y.rows()"},
                  {[](auto& args) { args.position_table = {}; },
                   "args.position_indices.defined() == args.position_table.defined()"},
                  {[](auto& args) { args.type_indices = int32({4}); }, "args.type_table.defined()"}});
}

TEST_F(OpContracts, EmbeddingBackward) {
  const EmbeddingGradArgs right{.indices = int32({4}), .dy = bf16({4, 6}), .dtable = fp32({10, 6})};
  expect_refused(embedding_backward, right,
                 {{[](auto& args) {
                     args.dtable = bf16({10, 6});
                   },
                   "args.dtable.dtype == DType::fp32"},
                  {[](auto& args) { args.indices = int32({6}); }, "args.indices.numel() == dy.rows()"}});
  using Tables = std::array<EmbeddingGradArgs, 2>;
  const auto several = [](ExecContext& ctx, const Tables& tables) {
    embedding_backward(ctx, std::span<const EmbeddingGradArgs>(tables));
  };
  expect_refused(several, Tables{right, right},
                 {{[](Tables& tables) {
                     tables[1].dy = bf16({5, 6});
                   },
                   "args.dy.shape == dy.shape"}});
}

TEST_F(OpContracts, FindNonFinite) {
  using Views = std::pair<TensorView, TensorView>;
  expect_refused([](ExecContext& ctx, const Views& views) { find_non_finite(ctx, views.first, views.second); },
                 Views{bf16({4, 6}), int32({1})},
                 {{[](Views& views) { views.second = int32({4}); }, "row.numel() == 1"},
                  {[](Views& views) { views.second = fp32({1}); }, "row.dtype == DType::int32"},
                  {[](Views& views) { views.first = bf16({6}); }, "x.shape.rank() == 2"}});
}

NormArgs layer_norm() {
  return {.kind = NormKind::layer,
          .x = bf16({4, 6}),
          .weight = bf16({6}),
          .bias = bf16({6}),
          .mean = fp32({4}),
          .rstd = fp32({4}),
          .y = Operand(bf16({4, 6}))};
}

TEST_F(OpContracts, NormForward) {
  NormArgs right = layer_norm();
  right.delta = right.sum = bf16({4, 6});
  expect_refused(norm_forward, right,
                 {{[](auto& args) { args.weight = fp32({6}); }, "args.weight.dtype == args.x.dtype"},
                  {[](auto& args) { args.rstd = fp32({6}); }, "args.rstd.numel() == args.x.rows()"},
                  {[](auto& args) { args.kind = NormKind::rms; }, "(args.kind == NormKind::layer)"},
                  {[](auto& args) { args.sum = {}; }, "args.delta.defined() == args.sum.defined()"},
                  {[](auto& args) {
                     args.delta = bf16({6, 4});
                   },
                   "args.delta.shape == args.x.shape"}});
}

TEST_F(OpContracts, NormRebuild) {
  expect_refused(norm_rebuild, layer_norm(),
                 {{[](auto& args) { args.mean = {}; }, "args.mean.defined() == (args.kind == NormKind::layer)"},
                  {[](auto& args) { args.bias = bf16({4}); }, "args.bias.numel() == args.x.cols()"}});
}

TEST_F(OpContracts, NormBackward) {
  const NormGradArgs right{.sum = bf16({4, 6}),
                           .rstd = fp32({4}),
                           .weight = bf16({6}),
                           .dy = bf16({4, 6}),
                           .dx = bf16({4, 6}),
                           .dweight = fp32({6}),
                           .dbranch_bias = fp32({6})};
  expect_refused(norm_backward, right,
                 {{[](auto& args) {
                     args.dresidual = bf16({4, 7});
                   },
                   "like->shape == args.sum.shape"},
                  {[](auto& args) {
                     args.dy = fp32({4, 6});
                   },
                   "like->dtype == args.sum.dtype"},
                  {[](auto& args) { args.dx = {}; }, "args.dx.defined()"},
                  {[](auto& args) { args.rstd = bf16({4}); }, "args.rstd.dtype == DType::fp32"},
                  {[](auto& args) { args.dweight = bf16({6}); }, "grad->dtype == DType::fp32"}});
}

TEST_F(OpContracts, PoolRowsForward) {
  expect_refused(pool_rows_forward, PoolRowsArgs{.x = bf16({9, 6}), .cu = int32({3}), .y = bf16({2, 6})},
                 {{[](auto& args) {
                     args.y = bf16({2, 5});
                   },
                   "args.y.cols() == args.x.cols()"},
                  {[](auto& args) { args.cu = int32({2}); }, "args.cu.numel() == args.y.rows() + 1"}});
}

TEST_F(OpContracts, PoolRowsBackward) {
  expect_refused(pool_rows_backward, PoolRowsGradArgs{.cu = int32({3}), .dy = bf16({2, 6}), .dx = bf16({9, 6})},
                 {{[](auto& args) {
                     args.dx = fp32({9, 6});
                   },
                   "args.dy.dtype == args.dx.dtype"},
                  {[](auto& args) { args.cu = fp32({3}); }, "args.cu.dtype == DType::int32"}});
}

// Two query heads and one key head of eight columns.
RopeArgs rope() {
  return {.in = bf16({4, 24}),
          .out = bf16({4, 24}),
          .positions = int32({4}),
          .cos_sin = fp32({10, 8}),
          .q_weight = bf16({8}),
          .k_weight = bf16({8}),
          .heads = 2,
          .kv_heads = 1,
          .head_dim = 8};
}

TEST_F(OpContracts, RopeForward) {
  expect_refused(rope_forward, rope(),
                 {{[](auto& args) { args.heads = 3; }, "(args.heads + args.kv_heads) * args.head_dim"},
                  {[](auto& args) { args.positions = int32({3}); }, "args.positions.numel() == rotated.rows()"},
                  {[](auto& args) { args.k_weight = {}; }, "args.q_weight.defined() == args.k_weight.defined()"},
                  {[](auto& args) { args.q_weight = fp32({8}); }, "weight->dtype == rotated.dtype"},
                  {[](auto& args) {
                     args.out = bf16({4, 16});
                   },
                   "args.out.shape == args.in.shape"}});
}

TEST_F(OpContracts, RopeBackward) {
  const RopeGradArgs right{.forward = rope(), .dout = bf16({4, 24}), .din = bf16({4, 24})};
  expect_refused(rope_backward, right,
                 {{[](auto& args) {
                     args.forward.cos_sin = bf16({10, 8});
                   },
                   "args.cos_sin.dtype == DType::fp32"},
                  {[](auto& args) {
                     args.din = fp32({4, 24});
                   },
                   "args.din.dtype == args.dout.dtype"},
                  {[](auto& args) { args.forward.in = {}; }, "args.forward.in.shape == args.dout.shape"}});
}

TEST_F(OpContracts, ScatterRows) {
  expect_refused(scatter_rows, ScatterRowsArgs{.from = bf16({3, 6}), .indices = int32({3}), .to = bf16({7, 6})},
                 {{[](auto& args) {
                     args.to = bf16({2, 6});
                   },
                   "args.from.rows() <= args.to.rows()"},
                  {[](auto& args) { args.indices = int32({7}); }, "args.indices.numel() == args.from.rows()"}});
}

TEST_F(OpContracts, SoftCapForward) {
  expect_refused(soft_cap_forward, SoftCapArgs{.x = bf16({4, 6}), .y = bf16({4, 6})},
                 {{[](auto& args) {
                     args.y = bf16({6, 4});
                   },
                   "args.y.shape == args.x.shape"},
                  {[](auto& args) { args.cap = 0; }, "args.cap > 0"}});
}

TEST_F(OpContracts, SoftCapBackward) {
  expect_refused(soft_cap_backward, SoftCapGradArgs{.x = bf16({4, 6}), .dy = bf16({4, 6}), .dx = bf16({4, 6})},
                 {{[](auto& args) {
                     args.dx = bf16({6, 4});
                   },
                   "args.dx.shape == args.x.shape"},
                  {[](auto& args) {
                     args.dy = fp32({4, 6});
                   },
                   "args.dy.dtype == args.x.dtype"}});
}

TEST_F(OpContracts, ZeroExtend) {
  expect_refused(zero_extend, ZeroExtendArgs{.from = fp32({3, 6}), .to = fp32({4, 6})},
                 {{[](auto& args) {
                     args.from = fp32({5, 6});
                   },
                   "args.from.numel() <= args.to.numel()"},
                  {[](auto& args) {
                     args.to = bf16({4, 6});
                   },
                   "args.from.dtype == args.to.dtype"},
                  {[](auto& args) {
                     args.from = strided({3, 6});
                   },
                   "args.from.contiguous()"}});
}

}  // namespace
}  // namespace gradmill::test
