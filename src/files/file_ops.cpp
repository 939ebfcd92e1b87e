// SPDX-License-Identifier: Apache-2.0
// FileOps on top of POSIX.
#include "files/file_ops.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <vector>

namespace gradmill {
namespace {

using std::filesystem::path;

bool is_disk_full(int reason) { return reason == ENOSPC || reason == EDQUOT; }

std::string_view advice(int reason) {
  if (is_disk_full(reason)) return "free some space";
  if (reason == EACCES || reason == EPERM || reason == EROFS) return "check the permissions of the folder";
  return "check the path and the disk";
}

class PosixFileOps : public FileOps {
 public:
  FileHandle create(const path& path) override {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) throw FileError(path, "create", errno);
    return {descriptor, path};
  }

  size_t write(const FileHandle& file, std::span<const std::byte> bytes) override {
    for (;;) {
      const ssize_t written = ::write(file.descriptor, bytes.data(), bytes.size());
      if (written > 0) return static_cast<size_t>(written);
      // A write that neither fails nor advances would loop forever.
      if (written == 0) throw FileError(file.path, "write", EIO);
      if (errno != EINTR) throw FileError(file.path, "write", errno);
    }
  }

  void sync(const FileHandle& file) override {
    // Only EINTR is retried. After any other failure the kernel forgets which pages were lost, and a second fsync would
    // report success.
    while (::fsync(file.descriptor) != 0) {
      if (errno != EINTR) throw FileError(file.path, "write to disk", errno);
    }
  }

  void close(const FileHandle& file) override {
    // Linux closes the descriptor even when it returns EINTR.
    if (::close(file.descriptor) != 0 && errno != EINTR) throw FileError(file.path, "close", errno);
  }

  void make_folder(const path& path) override {
    if (::mkdir(path.c_str(), 0777) != 0) throw FileError(path, "create", errno);
  }

  void sync_folder(const path& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) throw FileError(path, "open", errno);
    const int reason = ::fsync(descriptor) == 0 ? 0 : errno;
    ::close(descriptor);
    // Some network file systems cannot sync a folder.
    if (reason != 0 && reason != EINVAL && reason != EOPNOTSUPP) throw FileError(path, "write to disk", reason);
  }

  void rename(const path& from, const path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      throw FileError(from, fmt::format("rename to {}", to.filename().string()), errno);
    }
  }

  void link(const path& from, const path& to) override {
    if (::link(from.c_str(), to.c_str()) != 0) throw FileError(from, "link", errno);
  }

  void remove(const path& path) override {
    if (::remove(path.c_str()) != 0) throw FileError(path, "remove", errno);
  }
};

}  // namespace

FileError::FileError(const path& path, std::string_view action, int reason)
    : FileError(fmt::format("{}: cannot {}: {}", path.string(), action, std::generic_category().message(reason)),
                reason) {}

FileError::FileError(const std::string& problem, int reason)
    : Error(ExitCode::failure, problem, advice(reason)), reason_(reason), problem_(problem) {}

bool FileError::disk_full() const { return is_disk_full(reason_); }

bool FileError::no_links() const {
  return reason_ == EPERM || reason_ == EOPNOTSUPP || reason_ == ENOSYS || reason_ == EMLINK || reason_ == EXDEV;
}

FileOps& posix_file_ops() {
  static PosixFileOps posix;
  return posix;
}

path parent_folder(const path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

void make_folders(const path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw FileError(path, "make the folder", error.value());
}

path temporary_beside(const path& path) {
  return path.parent_path() / fmt::format(".tmp-{}-{}", path.filename().string(), ::getpid());
}

void remove_tree(FileOps& ops, const path& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // a folder that cannot be listed cannot be removed either, and that failure is reported
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() == fs::file_type::directory) {
    std::vector<fs::path> entries;
    for (fs::directory_iterator entry(path, ignored), end; entry != end; entry.increment(ignored)) {
      entries.push_back(entry->path());
    }
    for (const fs::path& entry : entries) remove_tree(ops, entry);
  }
  ops.remove(path);
}

void try_remove_tree(FileOps& ops, const path& path) {
  try {
    remove_tree(ops, path);
  } catch (const FileError&) {
    return;
  }
}

}  // namespace gradmill
