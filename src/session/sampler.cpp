// SPDX-License-Identifier: Apache-2.0
#include "session/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/rng.h"

namespace gradmill {
namespace {

void require_a_distribution(std::span<const float> logits) {
  const auto bad = std::find_if(logits.begin(), logits.end(), [](float logit) { return !(logit < INFINITY); });
  if (bad == logits.end()) return;
  throw Error(ExitCode::failure, fmt::format("the model's logit of token {} is {}", bad - logits.begin(), *bad),
              "its weights are damaged or diverged: use an earlier checkpoint");
}

}  // namespace

int32_t sample_token(std::span<const float> logits, const SamplerOptions& options, int64_t position) {
  require_a_distribution(logits);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  // Ties go to the lower token, so that the result does not depend on the sort.
  const auto likelier = [&](int32_t a, int32_t b) {
    return logits[size_t(a)] != logits[size_t(b)] ? logits[size_t(a)] > logits[size_t(b)] : a < b;
  };
  if (options.temperature == 0) return *std::min_element(order.begin(), order.end(), likelier);
  size_t kept = options.top_k > 0 ? std::min(order.size(), static_cast<size_t>(options.top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(kept), order.end(), likelier);
  const double top = logits[static_cast<size_t>(order[0])];
  std::vector<double> cumulative(kept);
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) {
    sum += std::exp((double(logits[static_cast<size_t>(order[i])]) - top) / options.temperature);
    cumulative[i] = sum;
  }
  if (options.top_p < 1) {
    const auto last = std::lower_bound(cumulative.begin(), cumulative.end(), options.top_p * sum);
    kept = static_cast<size_t>(last - cumulative.begin()) + 1;
    cumulative.resize(kept);
    sum = cumulative.back();
  }
  const RandomBlock words = philox(options.seed, {static_cast<uint32_t>(position), 0, 0, RngSite::kSample});
  const double draw = (double(words[0]) + 0.5) / 4294967296.0 * sum;
  const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end(), draw) - cumulative.begin();
  return order[std::min(static_cast<size_t>(chosen), kept - 1)];
}

}  // namespace gradmill
