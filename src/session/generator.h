// SPDX-License-Identifier: Apache-2.0
// Writes text: draws tokens one after the other, each from the logits that the ones before it give.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "session/sampler.h"
#include "session/session.h"

namespace gradmill {

struct GenerateOptions {
  int64_t max_tokens = 500;
  SamplerOptions sampler;
  std::optional<int32_t> stop_token;     // ends the text, and is no part of it
  std::vector<int32_t> more_stops = {};  // so does each of these
  int64_t num_ids = 0;                   // only ids below are drawn: models may have rows that no token has; 0: all
};

// The new tokens, without the prompt. on_token, if given, sees each as soon as it is drawn; after it returns false no
// more are drawn. The prompt needs at least one token, and the last `context` of it count.
std::vector<int32_t> generate(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                              const std::function<bool(int32_t token)>& on_token = {});

}  // namespace gradmill
