// SPDX-License-Identifier: Apache-2.0
// Ops in and around linear layers.
#include "op_contracts.h"
#include "ops/activation.h"
#include "ops/adapter_add.h"
#include "ops/bias_grad.h"
#include "ops/dora_backward.h"
#include "ops/dora_gain.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_activation.h"
#include "ops/matmul/product.h"
#include "ops/quantise.h"
#include "ops/row_norms.h"
#include "ops/scale_columns.h"

namespace gradmill::test {
namespace {

TEST_F(OpContracts, ActivationForward) {
  const ActivationArgs right{.kind = Activation::swiglu, .x = fp32({4, 6}), .y = Operand(fp32({4, 3}))};
  expect_refused(activation_forward, right,
                 {{[](auto& args) {
                     args.x = fp32({4, 3});
                   },
                   "args.x.cols() == (is_gated(args.kind) ? 2 : 1)"},
                  {[](auto& args) {
                     args.x = bf16({4, 6});
                   },
                   "y.dtype == args.x.dtype"}});
}

TEST_F(OpContracts, ActivationBackward) {
  const ActivationGradArgs right{
      .x = fp32({4, 3}), .dy = fp32({4, 3}), .dx = fp32({4, 3}), .dbias = fp32({3}), .bias_beta = 1};
  expect_refused(
      activation_backward, right,
      {{[](auto& args) { args.kind = Activation::swiglu; }, "args.x.cols() == (is_gated(args.kind) ? 2 : 1)"},
       {[](auto& args) {
          args.dx = fp32({3, 4});
        },
        "args.dx.plain.shape == args.x.shape"},
       {[](auto& args) {
          args.dy = bf16({4, 3});
        },
        "args.dy.dtype == args.x.dtype"},
       {[](auto& args) { args.dbias = bf16({3}); }, "args.dbias.dtype == DType::fp32"}});
}

TEST_F(OpContracts, AdapterAdd) {
  const AdapterAddArgs right{.y = bf16({4, 6}), .h = bf16({4, 2}), .b = bf16({6, 2}), .gain = fp32({6})};
  expect_refused(adapter_add, right,
                 {{[](auto& args) {
                     args.b = bf16({2, 6});
                   },
                   "args.b.rows() == args.y.cols()"},
                  {[](auto& args) { args.y = bf16({6}); }, "args.y.shape.rank() == 2"},
                  {[](auto& args) {
                     args.h = fp32({4, 2});
                   },
                   "args.h.dtype == args.y.dtype"},
                  {[](auto& args) { args.gain = bf16({6}); }, "args.gain.dtype == DType::fp32"}});
}

TEST_F(OpContracts, BiasGrad) {
  expect_refused(bias_grad, BiasGradArgs{.dy = bf16({4, 6}), .dbias = fp32({6})},
                 {{[](auto& args) { args.dbias = fp32({4}); }, "args.dbias.numel() == args.dy.cols()"},
                  {[](auto& args) { args.dbias = bf16({6}); }, "args.dbias.dtype == DType::fp32"}});
}

TEST_F(OpContracts, DoraBackward) {
  const DoraGradArgs right{.y = bf16({4, 6}),
                           .dy = bf16({4, 6}),
                           .gain = fp32({6}),
                           .magnitude = fp32({6}),
                           .dz = bf16({4, 6}),
                           .dmagnitude = fp32({6})};
  expect_refused(dora_backward, right,
                 {{[](auto& args) {
                     args.dz = bf16({6, 4});
                   },
                   "args.dz.shape == args.y.shape"},
                  {[](auto& args) { args.dmagnitude = bf16({6}); }, "args.dmagnitude.dtype == DType::fp32"},
                  {[](auto& args) { args.bias = fp32({6}); }, "args.bias.dtype == args.y.dtype"}});
}

TEST_F(OpContracts, DoraGain) {
  const DoraGainArgs right{.base_norms = fp32({6}),
                           .product = fp32({6, 2}),
                           .gram = fp32({2, 2}),
                           .b = bf16({6, 2}),
                           .magnitude = fp32({6}),
                           .gain = fp32({6})};
  expect_refused(dora_gain, right,
                 {{[](auto& args) {
                     args.gram = fp32({6, 6});
                   },
                   "args.gram.shape == (Shape{rank, rank})"},
                  {[](auto& args) {
                     args.product = bf16({6, 2});
                   },
                   "args.product.dtype == DType::fp32"},
                  {[](auto& args) { args.gain = fp32({2}); }, "args.gain.numel() == rows"}});
}

TEST_F(OpContracts, Matmul) {
  const MatmulArgs right{
      .a = bf16({4, 6}), .b = bf16({5, 6}), .c = fp32({4, 5}), .transpose_b = true, .bias = bf16({5})};
  expect_refused(matmul, right,
                 {{[](auto& args) { args.transpose_b = false; }, "== args.c.cols()"},
                  {[](auto& args) {
                     args.a = bf16({4, 7});
                   },
                   "(args.transpose_a ? args.a.rows() : args.a.cols()) =="},
                  {[](auto& args) {
                     args.a = fp32({4, 6});
                   },
                   "args.a.dtype == args.b.dtype"},
                  {[](auto& args) { args.bias = bf16({4}); }, "args.bias.numel() == args.c.cols()"}});
}

TEST_F(OpContracts, MatmulActivation) {
  const MatmulActivationArgs right{
      .kind = Activation::swiglu,
      .product = {.a = bf16({4, 6}), .b = bf16({10, 6}), .c = bf16({4, 10}), .transpose_b = true},
      .x = bf16({4, 10}),
      .y = bf16({4, 5})};
  expect_refused(
      matmul_activation, right,
      {{[](auto& args) { args.kind = Activation::gelu_erf; }, "(is_gated(args.kind) ? 2 : 1)"},
       {[](auto& args) {
          args.product.b = bf16({6, 10});
        },
        "== args.c.cols()"},
       {[](auto& args) { args.product.transpose_b = false; }, "args.product.transpose_b == args.product.defined()"},
       {[](auto& args) { args.product.beta = 1; }, "args.product.beta == 0"},
       {[](auto& args) {
          args.x = fp32({4, 10});
        },
        "args.x.dtype == y.dtype"}});
}

TEST_F(OpContracts, MatmulActivationBackward) {
  const MatmulActivationGradArgs right{
      .product = {.a = bf16({4, 6}), .b = bf16({6, 5})}, .x = bf16({4, 5}), .dx = bf16({4, 5})};
  expect_refused(matmul_activation_backward, right,
                 {{[](auto& args) {
                     args.dx = bf16({5, 4});
                   },
                   "args.x.shape == dx.shape"},
                  {[](auto& args) {
                     args.product.c = bf16({4, 5});
                   },
                   "!args.product.c.defined()"},
                  {[](auto& args) {
                     args.product.b = bf16({6, 4});
                   },
                   "(is_gated(args.kind) ? 2 : 1) * args.product.b.plain.cols()"},
                  {[](auto& args) { args.product.transpose_b = true; }, "!args.product.transpose_b"}});
}

TEST_F(OpContracts, RunProduct) {
  const Product right{.a = Operand(bf16({4, 6})), .b = Operand(bf16({6, 5})), .c = bf16({4, 5})};
  expect_refused(run_product, right,
                 {{[](auto& product) { product.transpose_b = true; }, "== args.c.cols()"},
                  {[](auto& product) { product.bias = bf16({4}); }, "args.bias.numel() == args.c.cols()"}});
}

TEST_F(OpContracts, Quantise) {
  expect_refused(quantise, QuantiseArgs{.values = bf16({4, 6}), .codes = int8({4, 6}), .scales = fp32({4})},
                 {{[](auto& args) { args.format = WeightFormat::nf4; }, "args.codes.shape == shapes.codes"},
                  {[](auto& args) { args.format = WeightFormat::fp32; }, "format == WeightFormat::nf4"},
                  {[](auto& args) { args.scales = fp32({6}); }, "args.scales.shape == shapes.scales"}});
}

TEST_F(OpContracts, Dequantise) {
  const QuantiseArgs right{
      .values = bf16({5, 30}), .codes = int8({75}), .scales = fp32({3}), .format = WeightFormat::nf4};
  expect_refused(dequantise, right,
                 {{[](auto& args) {
                     args.values = strided({5, 30});
                   },
                   "args.values.contiguous()"},
                  {[](auto& args) { args.codes = int32({75}); }, "args.codes.dtype == DType::int8"}});
}

TEST_F(OpContracts, RowNorms) {
  expect_refused(row_norms, RowNormsArgs{.x = bf16({4, 6}), .squares = fp32({4})},
                 {{[](auto& args) { args.squares = fp32({6}); }, "args.squares.numel() == args.x.rows()"},
                  {[](auto& args) { args.squares = bf16({4}); }, "args.squares.dtype == DType::fp32"}});
}

TEST_F(OpContracts, ScaleColumns) {
  const ScaleColumnsArgs right{.x = bf16({4, 6}), .gain = fp32({6}), .bias = bf16({6}), .y = bf16({4, 6})};
  expect_refused(scale_columns, right,
                 {{[](auto& args) {
                     args.y = fp32({4, 6});
                   },
                   "args.y.dtype == args.x.dtype"},
                  {[](auto& args) {
                     args.addend = bf16({4, 6});
                   },
                   "args.addend.dtype == DType::fp32"},
                  {[](auto& args) { args.gain = fp32({4}); }, "args.gain.numel() == args.x.cols()"}});
}

}  // namespace
}  // namespace gradmill::test
