// SPDX-License-Identifier: Apache-2.0
// Turns an adapter config, which names modules as Hugging Face does, into a plan for our layers.
#pragma once

#include "adapters/adapter_config.h"
#include "model_files/hf_names.h"

namespace gradmill {

// `base` is the model without a plan. Modules of the task's head (classifier, score) are trained in full, as in PEFT.
// Throws a usage error if the config matches no module, or in modules_to_save only a part of one of our parameters.
AdapterPlan resolve_adapters(const AdapterConfig& config, const Family& family, const Transformer& base,
                             WeightFormat base_format = WeightFormat::compute);

// model.load_in: "bf16" (the compute type), "int8" or "nf4". Throws a usage error for another name.
WeightFormat base_format_by_name(std::string_view name);

// The modules that are trained in full: those in the config and those of its task.
std::vector<std::string> saved_modules(const AdapterConfig& config);

}  // namespace gradmill
