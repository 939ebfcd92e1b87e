// SPDX-License-Identifier: Apache-2.0
// How Hugging Face checkpoints name and cut our parameters.
#pragma once

#include <string>
#include <vector>

#include "models/transformer.h"

namespace gradmill {

enum class HfFamily : uint8_t { gpt2, llama, qwen2, qwen3, gemma3, bert, deberta_v2, modernbert };

// One stored tensor; several stacked along rows make one of our fused parameters.
struct HfTensor {
  std::string name;
  int64_t rows = 0;         // of our parameter that it fills (elements, for a vector)
  bool transposed = false;  // stored as (in, out)
};

std::vector<HfTensor> hf_tensors(HfFamily family, const Transformer& model, ParamId id);

}  // namespace gradmill
