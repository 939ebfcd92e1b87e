// SPDX-License-Identifier: Apache-2.0
// Exports a trained or downloaded model as a Hugging Face folder, a GGUF file, or adapters for PEFT.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace gradmill {

struct ExportRequest {
  std::filesystem::path from;  // a run folder (its best checkpoint), a checkpoint, a model folder or a .gguf file
  std::filesystem::path to;
  std::string format = "hf";   // hf: with adapters merged; gguf; or peft: only the adapters
  std::string dtype = "auto";  // auto, f32, bf16, f16; for gguf also q8_0
  uint64_t shard_bytes = 5'000'000'000;
  bool allow_older = false;  // if a run's newest checkpoint is damaged
};

// Returns a line about what was written. Throws usage_error, data_error and FileError, and then leaves no files.
std::string export_model_to(const ExportRequest& request);

}  // namespace gradmill
