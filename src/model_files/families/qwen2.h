// SPDX-License-Identifier: Apache-2.0
// What Qwen 2 and Qwen 3 share.
#pragma once

#include "model_files/config_reader.h"
#include "model_files/hf_config.h"

namespace gradmill {

// All but biases and norms of queries and keys.
void read_qwen(const ConfigReader& reader, HfConfig& config);

}  // namespace gradmill
