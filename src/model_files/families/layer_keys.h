// SPDX-License-Identifier: Apache-2.0
// Keys of a config.json that many families have, about layers.
#pragma once

#include <string_view>
#include <vector>

#include "model_files/config_reader.h"
#include "ops/activation.h"

namespace gradmill {

// The activation's name as one of ours, without a gate or as a gate.
Activation read_gelu(const ConfigReader& reader, std::string_view key, std::string_view fallback, bool gated);
// layer_types: which layers have a window. `expected` is what other keys imply, one flag per layer.
std::vector<bool> read_layer_types(const ConfigReader& reader, int64_t layers, std::vector<bool> expected);

}  // namespace gradmill
