// SPDX-License-Identifier: Apache-2.0
// Adapters as PEFT stores them: a folder with adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>

#include "adapters/adapter_config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "model_files/hf_names.h"

namespace gradmill {

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";

// A tensor of the file and the part of our parameter it holds: rows begin .. end (elements of a vector).
struct PeftTensor {
  std::string name;
  ParamId param = kNoParam;
  int64_t begin = 0, end = 0;
  bool transposed = false;  // stored as (in, out)
};

// All tensors that a folder holds: low-rank matrices, magnitudes, and modules that are trained in full.
std::vector<PeftTensor> peft_tensors(const Family& family, const Transformer& model);
// The same tensors as views of the flat masters, which are in host memory.
std::vector<NamedTensor> adapter_tensors(const Family& family, const Transformer& model, const TensorView& masters);

// Loads the tensors into the masters, from any float type. Throws a data error, and leaves the masters unchanged, if a
// tensor is missing, has another shape, or belongs to no part of the model.
void load_adapter_tensors(const SafeTensors& file, const Family& family, const Transformer& model,
                          const TensorView& masters);

AdapterConfig read_adapter_config(const std::filesystem::path& folder);
// Writes the two files into a folder. Throws FileError.
void write_peft_folder(const std::filesystem::path& folder, const AdapterConfig& config, const Family& family,
                       const Transformer& model, const TensorView& masters);

}  // namespace gradmill
