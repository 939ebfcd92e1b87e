// SPDX-License-Identifier: Apache-2.0
// Uses flock, which ends with the process: a killed trainer leaves no stale lock.
#include "checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "files/file_ops.h"
#include "files/strict_json.h"

namespace gradmill {
namespace {

// What the holder of the lock wrote about itself.
std::string holder(int descriptor) {
  std::array<char, 128> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  return size > 0 ? std::string(text.data(), static_cast<size_t>(size)) : "another process";
}

std::filesystem::path lock_file(const std::filesystem::path& run_folder) { return run_folder / ".lock"; }

}  // namespace

bool RunLock::is_known(const std::filesystem::path& run_folder) {
  std::error_code ignored;
  return std::filesystem::exists(lock_file(run_folder), ignored);
}

void RunLock::sign() {
  if (!held_) return;
  std::array<char, 65> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const std::string text = fmt::format("process {} on {}", ::getpid(), host.data());
  // A failure is ignored, because only an error message uses this text.
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, text.data(), text.size(), 0) < 0) return;
}

RunLock::RunLock(const std::filesystem::path& run_folder) {
  const std::filesystem::path path = lock_file(run_folder);
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw FileError(path, "open", errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    held_ = true;
    return;
  }
  const int reason = errno;
  if (reason == ENOSYS || reason == EOPNOTSUPP || reason == ENOLCK) return;
  const std::string other = quote_for_message(holder(descriptor_));
  ::close(descriptor_);
  if (reason != EWOULDBLOCK) throw FileError(path, "lock", reason);
  throw usage_error(fmt::format("{}: another trainer uses this run folder ({})", run_folder.string(), other),
                    "wait for it, stop it, or choose another run folder");
}

RunLock::~RunLock() { ::close(descriptor_); }

}  // namespace gradmill
