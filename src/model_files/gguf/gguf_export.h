// SPDX-License-Identifier: Apache-2.0
// Writes a model as one GGUF file for llama.cpp.
#pragma once

#include <filesystem>
#include <vector>

#include "files/file_ops.h"
#include "model_files/export.h"
#include "model_files/gguf/gguf_types.h"

namespace gradmill {

struct GgufExportOptions {
  GgmlType type = GgmlType::f16;  // type of matrices: f32, f16, bf16 or q8_0; vectors are always F32
  std::string name;               // general.name; may be empty
};

// `files` are the model's other files; tokenizer.json must be among them. Throws a usage_error for a model or tokenizer
// that GGUF cannot express, and what export_model throws.
void export_gguf(const std::filesystem::path& path, const TensorSource& source, const HfConfig& config,
                 const std::vector<ExportFile>& files, const GgufExportOptions& options = {},
                 FileOps& ops = real_file_ops());

}  // namespace gradmill
