// SPDX-License-Identifier: Apache-2.0
// How Hugging Face checkpoints name and cut our parameters.
#pragma once

#include <string>
#include <vector>

#include "models/transformer.h"

namespace gradmill {

enum class HfFamily : uint8_t { gpt2, llama };  // llama's names serve Qwen3 too

// One stored tensor; several stacked along rows make one of our fused parameters.
struct HfTensor {
  std::string name;
  int64_t rows = 0;         // of our parameter that it fills (elements, for a vector)
  bool transposed = false;  // stored as (in, out)
};

// Empty for parameters beside the model: adapters have names of their own (adapters/peft_names.h).
std::vector<HfTensor> hf_tensors(HfFamily family, const Transformer& model, ParamId id);

}  // namespace gradmill
