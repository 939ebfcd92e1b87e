// SPDX-License-Identifier: Apache-2.0
#include "nn/deferred_gradients.h"

#include <algorithm>

namespace gradmill {
namespace {

// By a library's tiles: with fewer tiles than multiprocessors it must split k and add the parts up; with fewer than two
// tiles each, many multiprocessors have nothing to do at the end.
bool fills_gpu(const ExecContext& ctx, int64_t rows, int64_t cols) {
  constexpr int64_t kTile = 128;
  const auto tiles = [](int64_t size) { return (size + kTile - 1) / kTile; };
  return tiles(rows) * tiles(cols) >= 2 * ctx.device.num_units;
}

}  // namespace

bool DeferredGradients::defers(const ExecContext& ctx, int64_t rows, int64_t cols) {
  const bool wanted = ctx.kernels.batched_gradients && !ctx.kernels.deterministic;
  return wanted && ctx.device.kind == DeviceKind::cuda && !fills_gpu(ctx, rows, cols);
}

void DeferredGradients::settle(ExecContext& ctx, const TensorView& view) {
  while (true) {
    const auto reader =
        std::find_if(products_.begin(), products_.end(), [&](const Product& product) { return reads(product, view); });
    if (reader == products_.end()) return;
    run_batch(ctx, *reader);
  }
}

void DeferredGradients::add(ExecContext& ctx, const Product& product) {
  assert(!product.bias.defined() && product.batch.count == 1);
  const bool deferred = defers(ctx, product.c.rows(), product.c.cols()) && holds_operands(ctx.saved, product);
  if (!deferred) return run_product(ctx, product);
  // A weight of two layers has two products, which must stay in order.
  const auto has_same_result = [&](const Product& other) { return other.c.data == product.c.data; };
  if (std::any_of(products_.begin(), products_.end(), has_same_result)) run_products(ctx);
  products_.push_back(product);
}

void DeferredGradients::run(ExecContext& ctx) {
  run_products(ctx);
  add_partial_sums(ctx, sums_);
  sums_.clear();
}

void DeferredGradients::run_products(ExecContext& ctx) {
  while (!products_.empty()) run_batch(ctx, products_.back());
}

// Runs the last product that is like this one, and as a batch with it all that continue its steps through memory. The
// blocks' memory lies in their order, and the backward began with the last block.
void DeferredGradients::run_batch(ExecContext& ctx, Product like) {
  std::vector<Product> others;
  Product batch, last;
  for (size_t i = products_.size(); i-- > 0;) {
    const Product& next = products_[i];
    const bool begins = !batch.defined() && are_alike(next, like);
    if (begins) batch = next;
    if (begins || (batch.defined() && are_alike(next, like) && join_batch(batch, last, next))) {
      last = next;
    } else {
      others.push_back(next);
    }
  }
  std::reverse(others.begin(), others.end());
  products_ = std::move(others);
  run_product(ctx, batch);
}

}  // namespace gradmill
