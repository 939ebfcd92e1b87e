// SPDX-License-Identifier: Apache-2.0
#include "train/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/rng.h"

namespace gradmill {

int32_t sample_token(std::span<const float> logits, const SamplerOptions& options, int64_t position) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  // Ties break towards the lower token, so that the draw does not depend on the sort.
  const auto likelier = [&](int32_t a, int32_t b) {
    return logits[size_t(a)] != logits[size_t(b)] ? logits[size_t(a)] > logits[size_t(b)] : a < b;
  };
  if (options.temperature == 0) return *std::min_element(order.begin(), order.end(), likelier);
  const size_t kept = options.top_k > 0 ? std::min(order.size(), static_cast<size_t>(options.top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(kept), order.end(), likelier);
  const double top = logits[static_cast<size_t>(order[0])];
  std::vector<double> cumulative(kept);
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) {
    sum += std::exp((double(logits[static_cast<size_t>(order[i])]) - top) / options.temperature);
    cumulative[i] = sum;
  }
  const RandomBlock words = philox(options.seed, {static_cast<uint32_t>(position), 0, 0, RngSite::kSample});
  const double draw = (double(words[0]) + 0.5) / 4294967296.0 * sum;
  const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end(), draw) - cumulative.begin();
  return order[std::min(static_cast<size_t>(chosen), kept - 1)];
}

}  // namespace gradmill
