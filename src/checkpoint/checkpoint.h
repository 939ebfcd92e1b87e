// SPDX-License-Identifier: Apache-2.0
// Checkpoint: one saved state, verified and ready to read.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace gradmill {

// Views stay valid as long as the object exists, even if it is moved or the folder is removed.
class Checkpoint {
 public:
  // Verifies the size and checksum of every file. Throws a data_error that names the first bad file.
  explicit Checkpoint(const std::filesystem::path& folder);

  int64_t step() const { return manifest_.step; }
  const std::filesystem::path& folder() const { return folder_; }
  // The saved state: the same JSON object, with sorted keys.
  const std::string& state_json() const { return manifest_.state_json; }
  // The names of the files, sorted, without the manifest.
  std::vector<std::string> files() const;
  bool contains(std::string_view file) const { return manifest_.files.contains(std::string(file)); }

  // The tensors of a .safetensors file, mapped into memory. See SafeTensors for views, and for copies that leave no
  // pages in memory.
  const SafeTensors& tensors(std::string_view file) const;
  TensorView tensor(std::string_view file, std::string_view name) const { return tensors(file).at(name); }
  // The content of any other file.
  std::string text(std::string_view file) const;

 private:
  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, SafeTensors, std::less<>> tensors_;
};

}  // namespace gradmill
