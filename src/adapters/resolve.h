// SPDX-License-Identifier: Apache-2.0
// From an adapter config, whose modules have Hugging Face's names, to a plan for our layers.
#pragma once

#include "adapters/adapter_config.h"
#include "models/hf_names.h"

namespace gradmill {

// `base` is the model without a plan. Modules of the task's head (classifier, score) are trained in full, as PEFT does
// it. Throws a usage error when the config matches no module, or only part of what we keep as one parameter.
AdapterPlan resolve_adapters(const AdapterConfig& config, HfFamily family, const Transformer& base,
                             WeightFormat base_format = WeightFormat::compute);

// model.load_in: "bf16" (whatever is computed with), "int8" or "nf4". Throws a usage error for another name.
WeightFormat base_format_by_name(std::string_view name);

// The modules that are trained in full: those of the config and of its task.
std::vector<std::string> saved_modules(const AdapterConfig& config);

}  // namespace gradmill
