// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/product.h"

namespace gradmill {
namespace {

const std::byte* begin_of(const TensorView& view) { return static_cast<const std::byte*>(view.data); }

const std::byte* end_of(const TensorView& view) {
  if (view.numel() == 0) return begin_of(view);
  return begin_of(view) + ((view.rows() - 1) * view.row_stride + view.cols()) * int64_t(size_of(view.dtype));
}

bool overlap(const TensorView& one, const TensorView& other) {
  return begin_of(one) < end_of(other) && begin_of(other) < end_of(one);
}

bool alike(const TensorView& one, const TensorView& other) {
  return one.shape == other.shape && one.dtype == other.dtype && one.row_stride == other.row_stride;
}

// Elements from one tensor to another.
int64_t distance(const TensorView& from, const TensorView& to) {
  return (begin_of(to) - begin_of(from)) / int64_t(size_of(from.dtype));
}

BatchSteps steps_between(const Product& one, const Product& next) {
  return {.count = 2,
          .a = distance(one.a.plain, next.a.plain),
          .b = distance(one.b.plain, next.b.plain),
          .c = distance(one.c, next.c)};
}

}  // namespace

MatmulArgs matmul_args(const Product& product) {
  return {.a = product.a.plain,
          .b = product.b.plain,
          .c = product.c,
          .transpose_a = product.transpose_a,
          .transpose_b = product.transpose_b,
          .beta = product.beta,
          .bias = product.bias,
          .batch = product.batch};
}

void run_product(ExecContext& ctx, const Product& product) { matmul(ctx, matmul_args(product)); }

bool reads(const Product& product, const TensorView& view) {
  return overlap(product.a.plain, view) || overlap(product.b.plain, view);
}

bool holds_operands(const Arena& arena, const Product& product) {
  return arena.holds(product.a.plain) && arena.holds(product.b.plain);
}

bool are_alike(const Product& one, const Product& other) {
  return alike(one.a.plain, other.a.plain) && alike(one.b.plain, other.b.plain) && alike(one.c, other.c) &&
         one.transpose_a == other.transpose_a && one.transpose_b == other.transpose_b && one.beta == other.beta;
}

bool join_batch(Product& batch, const Product& last, const Product& next) {
  BatchSteps steps = steps_between(last, next);
  if (steps.a <= 0 || steps.b <= 0 || steps.c <= 0) return false;
  if (batch.batch.count > 1) {
    steps.count = batch.batch.count;
    if (steps != batch.batch) return false;
    ++steps.count;
  }
  batch.batch = steps;
  return true;
}

}  // namespace gradmill
