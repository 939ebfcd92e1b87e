// SPDX-License-Identifier: Apache-2.0
// Adapters merged into the base: W' = W + s · B A, with DoRA diag(m / ‖W + s · B A‖) (W + s · B A), in fp32.
#pragma once

#include "nn/params.h"

namespace gradmill {

// The values of a weight with its adapters merged in, as an exported model has them; other parameters unchanged.
std::vector<float> merged_values(ExecContext& ctx, const Weights& weights, ParamId id);

// Merges the adapters during its lifetime, for evaluation and generation at the base's speed: layers then skip the
// adapters. A copy of the base's weights in host memory restores its exact bits at the end; nothing is subtracted.
class MergedAdapters {
 public:
  // Throws a usage error for a quantised base, which cannot hold the sum.
  MergedAdapters(ExecContext& ctx, Weights& weights);
  ~MergedAdapters();
  MergedAdapters(const MergedAdapters&) = delete;
  MergedAdapters& operator=(const MergedAdapters&) = delete;

 private:
  struct Original {
    ParamId id;
    std::vector<std::byte> bytes;
  };

  ExecContext& ctx_;
  Weights& weights_;
  std::vector<Original> originals_;
};

}  // namespace gradmill
