// SPDX-License-Identifier: Apache-2.0
// A trained or downloaded model for others: as a Hugging Face folder, a GGUF file, or adapters for PEFT.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace gradmill {

struct ExportRequest {
  std::filesystem::path from;  // a run folder (its best checkpoint), a checkpoint, a model folder or a .gguf file
  std::filesystem::path to;
  std::string format = "hf";   // with adapters merged; or gguf; or peft: adapters alone
  std::string dtype = "auto";  // auto, f32, bf16, f16; for gguf q8_0, too
  uint64_t shard_bytes = 5'000'000'000;
  bool allow_older = false;  // where a run's newest checkpoint is damaged
};

// Returns what was written, in a line. Throws usage_error, data_error and FileError; then nothing is left behind.
std::string export_model_to(const ExportRequest& request);

}  // namespace gradmill
