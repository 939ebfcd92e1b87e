// SPDX-License-Identifier: Apache-2.0
// FreshTarget: a file or folder that appears under its name when it is complete, or not at all.
#pragma once

#include <filesystem>
#include <vector>

#include "files/file_ops.h"

namespace gradmill {

class FreshTarget {
 public:
  enum class Kind : uint8_t { file, folder };

  // Creates missing parents. Throws a usage_error if the name is taken (an empty folder is accepted where a folder is
  // to be made), and FileError if the disk fails.
  FreshTarget(FileOps& ops, const std::filesystem::path& name, Kind kind);
  FreshTarget(const FreshTarget&) = delete;
  FreshTarget& operator=(const FreshTarget&) = delete;
  // If the target was not published, removes it and the parents that were created for it.
  ~FreshTarget();

  // The path to write to, in the same folder as the target: an existing folder, or a file that does not exist yet.
  const std::filesystem::path& path() const { return temporary_; }
  // All files must be synced to disk before. Throws FileError.
  void publish();

 private:
  FileOps& ops_;
  std::filesystem::path name_, temporary_;
  std::vector<std::filesystem::path> made_;  // created parents, the lowest first
  Kind kind_;
  bool published_ = false;
};

}  // namespace gradmill
