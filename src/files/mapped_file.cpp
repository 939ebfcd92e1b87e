// SPDX-License-Identifier: Apache-2.0
// Read-only file mapping over POSIX mmap.
#include "files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace gradmill {
namespace {

struct FileDescriptor {
  int value;
  explicit FileDescriptor(int descriptor) : value(descriptor) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (value >= 0) ::close(value);
  }
};

Error system_failure(const std::filesystem::path& path, const char* action) {
  const std::string reason = std::generic_category().message(errno);
  return data_error(fmt::format("{}: cannot {}: {}", path.string(), action, reason),
                    "check the path and its permissions");
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer before we could refuse it.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.value < 0) throw system_failure(path, "open");
  struct stat info {};
  if (::fstat(file.value, &info) != 0) throw system_failure(path, "read its size");
  if (!S_ISREG(info.st_mode))
    throw data_error(fmt::format("{}: not a regular file", path.string()), "give a file's path");
  if (info.st_size == 0) return;
  const auto size = static_cast<size_t>(info.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (memory == MAP_FAILED) throw system_failure(path, "map");
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(std::span<const std::byte> bytes) const {
  const std::byte* end = bytes_.data() + bytes_.size();
  if (bytes.empty() || bytes.data() < bytes_.data() || bytes.data() + bytes.size() > end) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t offset = static_cast<size_t>(bytes.data() - bytes_.data()) / page * page;
  const size_t size = static_cast<size_t>(bytes.data() + bytes.size() - bytes_.data()) - offset;
  ::madvise(const_cast<std::byte*>(bytes_.data() + offset), size, MADV_DONTNEED);
}

}  // namespace gradmill
