// SPDX-License-Identifier: Apache-2.0
// How Hugging Face checkpoints name and cut our parameters: used when a checkpoint is loaded and when one is written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model_files/families/family.h"
#include "models/transformer.h"

namespace gradmill {

// One stored tensor; several stacked along rows make one of our fused parameters.
struct HfTensor {
  std::string name;
  int64_t rows = 0;         // of our parameter that it fills (elements, for a vector)
  bool transposed = false;  // stored as (in, out)
};

// The tensors that hold a parameter, with the names that transformers writes for a model with this head. Throws a usage
// error for a parameter that the family cannot have. Empty for parameters beside the model: adapters have names of
// their own (adapters/peft_folder.h).
std::vector<HfTensor> hf_tensors(const Family& family, const Transformer& model, ParamId id);
// Biases that the family's files must have and a model without biases has not: zeros.
std::vector<HfTensor> hf_absent_biases(const Family& family, const Transformer& model);
// The tensor of one of our head parameters ("classifier.weight"), also where the model has no such parameter (a tied
// head). Empty where the family has no such tensor.
std::string hf_head_tensor(const Family& family, const std::string& parameter);

}  // namespace gradmill
