// SPDX-License-Identifier: Apache-2.0
// One reader per family for its config.json. Private to the library.
#pragma once

#include "model_files/config_reader.h"
#include "model_files/model_config.h"

namespace gradmill {

// Each fills in spec and dropout, except for the head.
void read_gpt2(const ConfigReader& reader, HfConfig& config);
void read_llama(const ConfigReader& reader, HfConfig& config);
void read_qwen2(const ConfigReader& reader, HfConfig& config);
void read_qwen3(const ConfigReader& reader, HfConfig& config);
void read_gemma3(const ConfigReader& reader, HfConfig& config);
void read_bert(const ConfigReader& reader, HfConfig& config);
void read_deberta(const ConfigReader& reader, HfConfig& config);
void read_modernbert(const ConfigReader& reader, HfConfig& config);

// The activation's name as one of ours, without a gate or as a gate.
Activation read_gelu(const ConfigReader& reader, std::string_view key, std::string_view fallback, bool gated);
// layer_types: which layers have a window. `expected` is what other keys imply, one flag per layer.
std::vector<bool> read_layer_types(const ConfigReader& reader, int64_t layers, std::vector<bool> expected);

// Rotary positions, in the spelling of version 5 (rope_parameters) and the older one (rope_theta, rope_scaling).
struct RopeKeys {
  std::string_view theta = "rope_theta", local_theta;  // in the older spelling
  double theta_default = 10000, local_theta_default = 10000;
  bool by_layer_type = false;  // rope_parameters has full_attention and sliding_attention
};
void read_rope(const ConfigReader& reader, const RopeKeys& keys, TransformerSpec& spec);

}  // namespace gradmill
