// SPDX-License-Identifier: Apache-2.0
// Adds a model's tokenizer under llama.cpp's keys.
#pragma once

#include <vector>

#include "model_files/export.h"
#include "model_files/gguf/gguf_metadata.h"

namespace gradmill {

// `files` are the model's; tokenizer.json must be among them. Throws a usage_error for a tokenizer that llama.cpp's
// files have no form for.
void add_tokenizer_metadata(GgufMetadata& metadata, const HfConfig& config, const std::vector<ExportFile>& files);

}  // namespace gradmill
