// SPDX-License-Identifier: Apache-2.0
// RunLock: one trainer at a time in a run folder.
#pragma once

#include <filesystem>

namespace gradmill {

// Held from construction to destruction or the end of the process, however it ends. The file `.lock` stays; what counts
// is the system's lock on it. Taking it changes no byte of a file that is there.
class RunLock {
 public:
  // Throws usage_error when another process, or another RunLock of this one, has the lock; FileError when the folder
  // cannot be written.
  explicit RunLock(const std::filesystem::path& run_folder);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

  // Whether a trainer has ever locked this folder.
  static bool is_known(const std::filesystem::path& run_folder);
  // Writes who holds the lock into the file, for the message that others get.
  void sign();
  // False on a file system without locks: nothing then keeps a second trainer out.
  bool held() const { return held_; }

 private:
  int descriptor_ = -1;
  bool held_ = false;
};

}  // namespace gradmill
