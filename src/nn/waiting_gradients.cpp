// SPDX-License-Identifier: Apache-2.0
#include "nn/waiting_gradients.h"

#include <algorithm>

namespace gradmill {
namespace {

// A library's tiles: with fewer of them than multiprocessors it must split k, and add the parts up; with fewer than two
// for each, many have nothing to do at the end.
bool fills_gpu(const ExecContext& ctx, int64_t rows, int64_t cols) {
  constexpr int64_t kTile = 128;
  const auto tiles = [](int64_t size) { return (size + kTile - 1) / kTile; };
  return tiles(rows) * tiles(cols) >= 2 * ctx.device.num_units;
}

bool are_alike(const MatmulArgs& one, const MatmulArgs& other) {
  const auto like = [](const TensorView& a, const TensorView& b) {
    return a.shape == b.shape && a.dtype == b.dtype && a.row_stride == b.row_stride;
  };
  return like(one.a, other.a) && like(one.b, other.b) && like(one.c, other.c) && one.transpose_a == other.transpose_a &&
         one.transpose_b == other.transpose_b && one.alpha == other.alpha && one.beta == other.beta;
}

// Elements from one tensor to another.
int64_t distance(const TensorView& from, const TensorView& to) {
  return (static_cast<std::byte*>(to.data) - static_cast<std::byte*>(from.data)) /
         static_cast<int64_t>(size_of(from.dtype));
}

BatchSteps steps_between(const MatmulArgs& one, const MatmulArgs& next) {
  return {.count = 2, .a = distance(one.a, next.a), .b = distance(one.b, next.b), .c = distance(one.c, next.c)};
}

// Whether `next` goes on where `batch` ends, and if so makes it part of it.
bool joins(MatmulArgs& batch, const MatmulArgs& last, const MatmulArgs& next) {
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

template <class Is>
bool any(const std::vector<MatmulArgs>& products, Is&& is) {
  return std::any_of(products.begin(), products.end(), is);
}

}  // namespace

bool WaitingGradients::takes(const ExecContext& ctx, int64_t rows, int64_t cols) {
  const bool wanted = ctx.kernels.batched_gradients && !ctx.kernels.deterministic;
  return wanted && ctx.device.kind == DeviceKind::cuda && !fills_gpu(ctx, rows, cols);
}

void WaitingGradients::settle(ExecContext& ctx, const TensorView& view) {
  const auto reads = [&](const MatmulArgs& product) {
    return product.a.data == view.data || product.b.data == view.data;
  };
  while (true) {
    const auto reader = std::find_if(products_.begin(), products_.end(), reads);
    if (reader == products_.end()) return;
    run_batch(ctx, *reader);
  }
}

void WaitingGradients::add(ExecContext& ctx, const MatmulArgs& product) {
  assert(!product.bias.defined() && product.batch.count == 1);
  const bool waits =
      takes(ctx, product.c.rows(), product.c.cols()) && ctx.saved.holds(product.a) && ctx.saved.holds(product.b);
  if (!waits) return matmul(ctx, product);
  // What a weight of two layers collects must stay in order.
  if (any(products_, [&](const MatmulArgs& other) { return other.c.data == product.c.data; })) run_products(ctx);
  products_.push_back(product);
}

void WaitingGradients::run(ExecContext& ctx) {
  run_products(ctx);
  add_partial_sums(ctx, sums_);
  sums_.clear();
}

void WaitingGradients::run_products(ExecContext& ctx) {
  while (!products_.empty()) run_batch(ctx, products_.back());
}

// The last product that is like this one, and all that go on where it ends. Blocks' memory lies in their order, and the
// backward began with the last.
void WaitingGradients::run_batch(ExecContext& ctx, MatmulArgs like) {
  std::vector<MatmulArgs> others;
  MatmulArgs batch, last;
  for (size_t i = products_.size(); i-- > 0;) {
    const MatmulArgs& next = products_[i];
    const bool begins = !batch.c.defined() && are_alike(next, like);
    if (begins) batch = next;
    if (begins || (batch.c.defined() && are_alike(next, like) && joins(batch, last, next))) {
      last = next;
    } else {
      others.push_back(next);
    }
  }
  std::reverse(others.begin(), others.end());
  products_ = std::move(others);
  matmul(ctx, batch);
}

}  // namespace gradmill
