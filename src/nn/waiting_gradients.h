// SPDX-License-Identifier: Apache-2.0
// WaitingGradients: what weights collect that are too small to fill a GPU.
// A product whose operands stay in the saved arena waits until the blocks' backward is done; then like ones of all
// blocks are one call. Which ones wait depends on what a save policy keeps, and sums of a batch may have another order:
// not with `deterministic`. Sums over chunks of rows, of norms, wait too; their order is always the same.
#pragma once

#include <vector>

#include "ops/matmul/matmul.h"
#include "ops/partial_sums.h"

namespace gradmill {

class WaitingGradients {
 public:
  // Whether products for such a weight wait, if their operands stay. The same on paper.
  static bool takes(const ExecContext& ctx, int64_t rows, int64_t cols);
  // Keeps the product for later, or runs it.
  void add(ExecContext& ctx, const MatmulArgs& product);
  // All that wait.
  void run(ExecContext& ctx);
  // Takes sums that are to wait.
  std::vector<PartialSum>& sums() { return sums_; }
  // Before `view` is changed: if a product that waits reads it, it is run with those like it.
  void settle(ExecContext& ctx, const TensorView& view);

 private:
  void run_products(ExecContext& ctx);
  void run_batch(ExecContext& ctx, MatmulArgs like);

  std::vector<MatmulArgs> products_;
  std::vector<PartialSum> sums_;
};

}  // namespace gradmill
