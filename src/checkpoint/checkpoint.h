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

// Views stay valid, also across moves, as long as the object lives, even when the folder is removed meanwhile.
class Checkpoint {
 public:
  // Verifies the size and checksum of every file. Throws data_error naming the first that is wrong.
  explicit Checkpoint(const std::filesystem::path& folder);

  int64_t step() const { return manifest_.step; }
  const std::filesystem::path& folder() const { return folder_; }
  // The object that was saved: the same JSON value, its keys sorted.
  const std::string& state_json() const { return manifest_.state_json; }
  // Sorted, without the manifest.
  std::vector<std::string> files() const;
  bool contains(std::string_view file) const { return manifest_.files.contains(std::string(file)); }

  // The tensors of a .safetensors file, mapped: see SafeTensors for views, and for copies that leave no pages behind.
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
