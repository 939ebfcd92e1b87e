// SPDX-License-Identifier: Apache-2.0
// What a GGUF file says of a model.
#pragma once

#include <string>

#include "model_files/gguf/gguf_file.h"
#include "model_files/gguf/gguf_metadata.h"
#include "model_files/hf_config.h"

namespace gradmill {

// A config.json for the model in a file.
std::string gguf_config_json(const GgufFile& file);
// Adds the sizes and positions of a model under llama.cpp's keys. Throws a usage_error for what has no key.
void add_model_metadata(GgufMetadata& metadata, const HfConfig& config);

}  // namespace gradmill
