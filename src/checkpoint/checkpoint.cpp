// SPDX-License-Identifier: Apache-2.0
// Opens a checkpoint: reads the manifest, verifies checksums, then reads the headers of the tensor files.
#include "checkpoint/checkpoint.h"

#include "core/error.h"

namespace gradmill {

Checkpoint::Checkpoint(const std::filesystem::path& folder) : folder_(folder), manifest_(read_manifest(folder)) {
  verify_files(folder_, manifest_);
  for (const auto& [name, record] : manifest_.files) {
    if (name.ends_with(".safetensors")) tensors_.emplace(name, SafeTensors(folder_ / name));
  }
}

std::vector<std::string> Checkpoint::files() const {
  std::vector<std::string> names;
  for (const auto& [name, record] : manifest_.files) names.push_back(name);
  return names;
}

const SafeTensors& Checkpoint::tensors(std::string_view file) const {
  const auto place = tensors_.find(file);
  if (place == tensors_.end()) {
    throw data_error(fmt::format("{}: no tensors in {}", folder_.string(), file),
                     "check that the checkpoint belongs to this model");
  }
  return place->second;
}

std::string Checkpoint::text(std::string_view file) const {
  if (!contains(file)) {
    throw data_error(fmt::format("{}: no file {}", folder_.string(), file),
                     "check that the checkpoint belongs to this model");
  }
  const MappedFile mapped(folder_ / file);
  std::string text(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  mapped.check();
  return text;
}

}  // namespace gradmill
