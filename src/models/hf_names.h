// SPDX-License-Identifier: Apache-2.0
// How Hugging Face checkpoints name and cut our parameters: one list, read when a checkpoint is loaded and when one is
// written.
#pragma once

#include <string>
#include <string_view>
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

// What stands before the names of a body's tensors in models that have a head: "bert.". Files of a body alone
// (HeadKind::none), and many older ones, do without.
std::string_view hf_prefix(HfFamily family);

// The tensors that hold a parameter, with the names that transformers writes for a model with this head. Throws a usage
// error for a parameter that the family cannot have. Empty for parameters beside the model: adapters have names of
// their own (adapters/peft_folder.h).
std::vector<HfTensor> hf_tensors(HfFamily family, const Transformer& model, ParamId id);
// Biases that the family's files must have and a model without biases has not: zeros.
std::vector<HfTensor> hf_absent_biases(HfFamily family, const Transformer& model);

}  // namespace gradmill
