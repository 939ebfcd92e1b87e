// SPDX-License-Identifier: Apache-2.0
// FreshTarget: a file or folder that appears under its name once it is whole, or not at all.
#pragma once

#include <filesystem>
#include <vector>

#include "files/file_ops.h"

namespace gradmill {

class FreshTarget {
 public:
  enum class Kind : uint8_t { file, folder };

  // Makes missing parents. Throws a usage_error when there is something under the name already (an empty folder does
  // not count where one is to be made), FileError where the disk fails.
  FreshTarget(FileOps& ops, const std::filesystem::path& name, Kind kind);
  FreshTarget(const FreshTarget&) = delete;
  FreshTarget& operator=(const FreshTarget&) = delete;
  // What was not published goes, and the parents that were made for it.
  ~FreshTarget();

  // Where to write, beside the target: a folder that exists, or a file that does not yet.
  const std::filesystem::path& path() const { return temporary_; }
  // Files must be on the disk. Throws FileError.
  void publish();

 private:
  FileOps& ops_;
  std::filesystem::path name_, temporary_;
  std::vector<std::filesystem::path> made_;  // parents, the lowest first
  Kind kind_;
  bool published_ = false;
};

}  // namespace gradmill
