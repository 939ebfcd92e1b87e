// SPDX-License-Identifier: Apache-2.0
// WaitingGradients: what weights collect that are too small to fill a GPU.
// A product whose operands stay in the saved arena waits until the blocks' backward is done; then like ones of all
// blocks are one call. Which ones wait depends on what a save policy keeps, and sums of a batch may have another order:
// not with `deterministic`. Sums over chunks of rows, of norms, wait too; their order is always the same.
#pragma once

#include <string>
#include <vector>

#include "ops/matmul.h"
#include "ops/partial_sums.h"

namespace gradmill {

class WaitingGradients {
 public:
  // run() will be called after so many blocks at most.
  void expect_blocks(int64_t blocks) { blocks_ = blocks; }

  // Whether products for such a weight wait, if their operands stay. The same on paper.
  static bool takes(const ExecContext& ctx, int64_t rows, int64_t cols);
  // Keeps the product for later, or runs it.
  void add(ExecContext& ctx, const MatmulArgs& product);
  // All that wait.
  void run(ExecContext& ctx);
  // Room in the saved arena for an operand that a block makes again, until run(). A call for each block.
  TensorView room(ExecContext& ctx, const Shape& shape, DType dtype, std::string_view what);
  // Takes sums that are to wait.
  std::vector<PartialSum>& sums() { return sums_; }
  // Before `view` is changed: if a product that waits reads it, all of them are run.
  void settle(ExecContext& ctx, const TensorView& view);

 private:
  void run_products(ExecContext& ctx);

  // What blocks ask for under one name.
  struct Rooms {
    std::string what;
    TensorView all;
    int64_t left;
  };
  int64_t blocks_ = 1;
  std::vector<Rooms> rooms_;
  std::vector<MatmulArgs> products_;
  std::vector<PartialSum> sums_;
};

}  // namespace gradmill
