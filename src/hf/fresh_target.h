// SPDX-License-Identifier: Apache-2.0
// FreshTarget: a file or folder that appears under its name once it is whole, or not at all.
#pragma once

#include <filesystem>

#include "checkpoint/file_ops.h"

namespace gradmill {

class FreshTarget {
 public:
  enum class Kind : uint8_t { file, folder };

  // Throws a usage_error when there is something under the name already (an empty folder does not count), or no folder
  // to put it in.
  FreshTarget(FileOps& ops, const std::filesystem::path& name, Kind kind);
  FreshTarget(const FreshTarget&) = delete;
  FreshTarget& operator=(const FreshTarget&) = delete;
  // What was not published goes.
  ~FreshTarget();

  // Where to write: a folder that exists, or a file that does not yet.
  const std::filesystem::path& path() const { return temporary_; }
  void publish();

 private:
  FileOps& ops_;
  std::filesystem::path name_, temporary_;
  Kind kind_;
  bool published_ = false;
};

}  // namespace gradmill
