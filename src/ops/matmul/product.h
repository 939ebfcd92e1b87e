// SPDX-License-Identifier: Apache-2.0
// Product: one matrix product of a linear layer, c = op(a) · op(b) + beta · c (+ bias to every row), before it is done.
// nn/linear makes products. run_product does them, or an op that joins one with its own work (matmul_activation,
// norm_forward), or DeferredGradients. The format in which operands are multiplied is chosen here.
#pragma once

#include "core/operand.h"
#include "ops/matmul/matmul.h"

namespace gradmill {

struct Product {
  Operand a;     // (m, k), or (k, m) when transposed
  Operand b;     // (k, n), or (n, k) when transposed
  TensorView c;  // (m, n); undefined if only the op that joins the product needs it
  bool transpose_a = false, transpose_b = false;
  float beta = 0;   // 0: c is not read
  TensorView bias;  // (n) in the compute dtype, or undefined
  BatchSteps batch;

  bool defined() const { return a.defined(); }
};

// The call of matmul that is the product.
MatmulArgs matmul_args(const Product& product);
void run_product(ExecContext& ctx, const Product& product);

// Whether the product reads memory of `view`.
bool reads(const Product& product, const TensorView& view);
// Whether both operands lie in the arena.
bool holds_operands(const Arena& arena, const Product& product);
// Whether two products differ only in where their matrices lie.
bool are_alike(const Product& one, const Product& other);
// Makes `next` part of `batch`, whose last product is `last`, if the three matrices of `next` lie as far after those of
// `last` as in the steps before. All three are alike.
bool join_batch(Product& batch, const Product& last, const Product& next);

}  // namespace gradmill
