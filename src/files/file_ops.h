// SPDX-License-Identifier: Apache-2.0
// The system calls a save needs, behind one interface, so that tests can make any one of them fail.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace gradmill {

// A system call that failed. Not the user's data and not a setting: exit code 1.
class FileError : public Error {
 public:
  FileError(const std::filesystem::path& path, std::string_view action, int reason);
  // The errno.
  int reason() const { return reason_; }
  bool disk_full() const;
  // Whether a link() failed because there are no links here, or no more to this file.
  bool no_links() const;
  // The message without its advice.
  const std::string& problem() const { return problem_; }

 private:
  FileError(const std::string& problem, int reason);

  int reason_;
  std::string problem_;
};

// A file open for writing, and the name to use in messages.
struct FileHandle {
  int descriptor = -1;
  std::filesystem::path path;
};

// Every call throws FileError.
class FileOps {
 public:
  virtual ~FileOps() = default;
  // The file must not exist yet.
  virtual FileHandle create(const std::filesystem::path& path) = 0;
  // The number of bytes written: at least one, perhaps fewer than asked for.
  virtual size_t write(const FileHandle& file, std::span<const std::byte> bytes) = 0;
  virtual void sync(const FileHandle& file) = 0;
  virtual void close(const FileHandle& file) = 0;
  virtual void make_folder(const std::filesystem::path& path) = 0;
  virtual void sync_folder(const std::filesystem::path& path) = 0;
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // A second name for a file. Some file systems have no such thing: see no_links().
  virtual void link(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // A file, a link or an empty folder.
  virtual void remove(const std::filesystem::path& path) = 0;
};

// The system's own. For tests of the whole binary, the environment variable GRADMILL_FAULT makes them fail, as
// parse_fault in files/faulty_file_ops.h reads it; it is read once, at the first call.
FileOps& real_file_ops();
// The system's, without faults.
FileOps& posix_file_ops();

// A folder with all it holds, or a single file; links are removed, not followed. Nothing there: nothing done.
void remove_tree(FileOps& ops, const std::filesystem::path& path);
// For leftovers that the next start removes anyway: failures do not count.
void try_remove_tree(FileOps& ops, const std::filesystem::path& path);

// The folder that a path's last name is in: "." where the path does not say.
std::filesystem::path parent_folder(const std::filesystem::path& path);
// Makes those that are missing. Throws FileError.
void make_folders(const std::filesystem::path& path);
// A name in the same folder, so that it can be renamed. What a killed process left there is replaced by the next one
// with its number.
std::filesystem::path temporary_beside(const std::filesystem::path& path);

}  // namespace gradmill
