// SPDX-License-Identifier: Apache-2.0
// RunLock: allows one trainer at a time in a run folder.
#pragma once

#include <filesystem>

namespace gradmill {

// Holds the lock until it is destroyed or the process ends, for whatever reason. The file `.lock` stays in the folder;
// only the system's lock on it counts. Locking changes no byte of an existing file.
class RunLock {
 public:
  // Throws a usage_error if another process, or another RunLock of this process, has the lock. Throws FileError if the
  // folder cannot be written.
  explicit RunLock(const std::filesystem::path& run_folder);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

  // Whether a trainer has ever locked this folder.
  static bool is_known(const std::filesystem::path& run_folder);
  // Writes who holds the lock into the file. Other processes show this text in their error message.
  void sign();
  // False on a file system without locks. Nothing then prevents a second trainer.
  bool held() const { return held_; }

 private:
  int descriptor_ = -1;
  bool held_ = false;
};

}  // namespace gradmill
