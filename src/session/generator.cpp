// SPDX-License-Identifier: Apache-2.0
#include "session/generator.h"

#include <algorithm>

namespace gradmill {

std::vector<int32_t> generate(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                              const std::function<bool(int32_t token)>& on_token) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < options.max_tokens; ++i) {
    const auto logits = i == 0 ? session.start_generation(prompt) : session.continue_generation(tokens.back());
    const auto size = options.num_ids > 0 ? static_cast<size_t>(options.num_ids) : logits.size();
    const int32_t token = sample_token(logits.first(std::min(size, logits.size())), options.sampler, i);
    if (token == options.stop_token) break;
    if (std::find(options.more_stops.begin(), options.more_stops.end(), token) != options.more_stops.end()) break;
    tokens.push_back(token);
    if (on_token && !on_token(tokens.back())) break;
  }
  return tokens;
}

}  // namespace gradmill
