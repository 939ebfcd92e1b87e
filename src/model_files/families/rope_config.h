// SPDX-License-Identifier: Apache-2.0
// Reads the rotary positions of a config.json, in the spelling of version 5 of transformers (rope_parameters) and the
// older one (rope_theta, rope_scaling).
#pragma once

#include <string_view>

#include "model_files/config_reader.h"
#include "models/transformer_spec.h"

namespace gradmill {

struct RopeKeys {
  std::string_view theta = "rope_theta", local_theta;  // in the older spelling
  double theta_default = 10000, local_theta_default = 10000;
  bool by_layer_type = false;  // rope_parameters has full_attention and sliding_attention
};
void read_rope(const ConfigReader& reader, const RopeKeys& keys, TransformerSpec& spec);

}  // namespace gradmill
