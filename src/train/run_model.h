// SPDX-License-Identifier: Apache-2.0
// RunModel: which network a run trains, what stands in its config.json, and where its first weights come from.
#pragma once

#include <optional>
#include <string>

#include "config/run_config.h"
#include "models/hf_names.h"
#include "train/run_data.h"

namespace gradmill {

struct RunModel {
  HfFamily family = HfFamily::gpt2;
  TransformerSpec spec;
  RunTask task;

  // As a folder of this model has it; `eos` is the token that ends a text.
  std::string config_json(std::optional<int32_t> eos) const;
};

// Throws a usage_error for settings that do not fit together.
RunModel open_run_model(const RunConfig& config, const RunTask& task, int64_t vocab);

}  // namespace gradmill
