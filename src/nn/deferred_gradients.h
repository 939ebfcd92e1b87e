// SPDX-License-Identifier: Apache-2.0
// DeferredGradients: gradients of weights too small to fill a GPU, computed after the blocks' backward.
// The product that makes such a gradient is deferred if its operands stay in the saved arena; at the end, like products
// of all blocks become one batched call. A save policy decides which operands stay, and a batch may add up in another
// order, so nothing is deferred with `deterministic`. The sums over chunks of rows that norms' weights collect are
// deferred too; their order never changes.
#pragma once

#include <vector>

#include "ops/matmul/product.h"
#include "ops/partial_sums.h"

namespace gradmill {

class DeferredGradients {
 public:
  // Whether products for a weight of this size are deferred if their operands stay. The same on paper.
  static bool defers(const ExecContext& ctx, int64_t rows, int64_t cols);
  // Keeps the product for later, or runs it.
  void add(ExecContext& ctx, const Product& product);
  // Computes everything that is deferred.
  void run(ExecContext& ctx);
  // Sums can be deferred by adding them here.
  std::vector<PartialSum>& sums() { return sums_; }
  // To be called before memory of `view` is overwritten: runs the deferred products that read it, each with those like
  // it.
  void settle(ExecContext& ctx, const TensorView& view);

 private:
  void run_products(ExecContext& ctx);
  void run_batch(ExecContext& ctx, Product like);

  std::vector<Product> products_;
  std::vector<PartialSum> sums_;
};

}  // namespace gradmill
