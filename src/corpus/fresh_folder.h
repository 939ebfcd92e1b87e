// SPDX-License-Identifier: Apache-2.0
// FreshFolder: a new folder that is there as a whole or not at all.
#pragma once

#include <filesystem>

#include "checkpoint/file_ops.h"

namespace gradmill {

// Files go into path(), a folder beside the target; publish() gives it the target's name. Without it, all is removed.
class FreshFolder {
 public:
  // Makes missing parents. Throws a usage_error where the target exists and is not an empty folder, FileError where the
  // disk fails.
  FreshFolder(const std::filesystem::path& target, FileOps& ops);
  ~FreshFolder();
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Files in it must be on the disk. Throws FileError.
  void publish();

 private:
  FileOps& ops_;
  std::filesystem::path target_, path_;
  bool published_ = false;
};

}  // namespace gradmill
