// SPDX-License-Identifier: Apache-2.0
// The system calls that a save needs, as an interface, so that tests can make any one of them fail.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace gradmill {

// A system call that failed. It is neither the user's data nor a setting: exit code 1.
class FileError : public Error {
 public:
  FileError(const std::filesystem::path& path, std::string_view action, int reason);
  // The errno of the call.
  int reason() const { return reason_; }
  bool disk_full() const;
  // Whether link() failed because the file system has no hard links, or because this file has too many.
  bool no_links() const;
  // The message without the advice.
  const std::string& problem() const { return problem_; }

 private:
  FileError(const std::string& problem, int reason);

  int reason_;
  std::string problem_;
};

// A file open for writing, and its name for messages.
struct FileHandle {
  int descriptor = -1;
  std::filesystem::path path;
};

// Every function throws FileError on failure.
class FileOps {
 public:
  virtual ~FileOps() = default;
  // Creates a file that must not exist yet.
  virtual FileHandle create(const std::filesystem::path& path) = 0;
  // Returns the number of bytes written: at least one, perhaps fewer than requested.
  virtual size_t write(const FileHandle& file, std::span<const std::byte> bytes) = 0;
  virtual void sync(const FileHandle& file) = 0;
  virtual void close(const FileHandle& file) = 0;
  virtual void make_folder(const std::filesystem::path& path) = 0;
  virtual void sync_folder(const std::filesystem::path& path) = 0;
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // Gives a file a second name. Some file systems do not support this: see no_links().
  virtual void link(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // Removes a file, a link or an empty folder.
  virtual void remove(const std::filesystem::path& path) = 0;
};

// The real system calls. To test the whole binary, the environment variable GRADMILL_FAULT makes them fail; parse_fault
// in files/faulty_file_ops.h defines its format. It is read once, at the first call.
FileOps& real_file_ops();
// The system's, without faults.
FileOps& posix_file_ops();

// Removes a folder with all its contents, or a single file. Links are removed, not followed. Does nothing if there is
// nothing.
void remove_tree(FileOps& ops, const std::filesystem::path& path);
// The same for leftovers that the next start removes anyway: failures are ignored.
void try_remove_tree(FileOps& ops, const std::filesystem::path& path);

// The folder that contains the last component of a path: "." if the path has only one.
std::filesystem::path parent_folder(const std::filesystem::path& path);
// Creates the missing folders of a path. Throws FileError.
void make_folders(const std::filesystem::path& path);
// A temporary name in the same folder, so that the file can be renamed into place. It contains the process number: if a
// killed process left such a file, a later process with the same number replaces it.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

}  // namespace gradmill
