// SPDX-License-Identifier: Apache-2.0
// Generates text: samples one token after the other, each from the logits that follow the tokens before it.
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
  std::optional<int32_t> stop_token;     // ends the text and is not part of it
  std::vector<int32_t> more_stops = {};  // each of these also ends the text
  int64_t num_ids = 0;  // only smaller ids are sampled, because models may have rows without a token; 0: all ids
};

// Returns the new tokens, without the prompt. If given, on_token gets each token as soon as it is sampled; generation
// stops once it returns false. The prompt needs at least one token; only its last `context` tokens are used.
std::vector<int32_t> generate(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                              const std::function<bool(int32_t token)>& on_token = {});

}  // namespace gradmill
