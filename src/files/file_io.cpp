// SPDX-License-Identifier: Apache-2.0
#include "files/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "core/error.h"
#include "files/descriptor.h"

namespace gradmill {
namespace {

Error file_error(std::string_view verb, const std::filesystem::path& path, int error) {
  const bool rights = error == EACCES || error == EPERM || error == EROFS;
  return data_error(fmt::format("cannot {} '{}': {}", verb, path.string(), std::generic_category().message(error)),
                    rights ? "check its permissions" : "check the path and the disk");
}

}  // namespace

std::string read_bytes(const std::filesystem::path& path, int64_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file.is_open() || ::fstat(file.get(), &info) != 0) throw file_error("read", path, errno);
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode)) {
    throw data_error(fmt::format("'{}' is a {}", path.string(), S_ISDIR(info.st_mode) ? "folder" : "device"),
                     "give the path of a text file");
  }
  // Space for one byte more than the file has, so that the read reaches its end without growing the buffer.
  std::string bytes(static_cast<size_t>(std::min(max_bytes, std::max(int64_t{info.st_size} + 1, int64_t{1} << 16))), 0);
  size_t used = 0;
  while (static_cast<int64_t>(used) < max_bytes) {
    if (used == bytes.size()) bytes.resize(static_cast<size_t>(std::min(max_bytes, std::ssize(bytes) * 2)));
    const ssize_t got = ::read(file.get(), bytes.data() + used, bytes.size() - used);
    if (got < 0 && errno != EINTR) throw file_error("read", path, errno);
    if (got == 0) break;
    if (got > 0) used += static_cast<size_t>(got);
  }
  bytes.resize(used);
  return bytes;
}

std::string read_whole(const std::filesystem::path& path, int64_t most_bytes, std::string_view hint) {
  std::string bytes = read_bytes(path, most_bytes + 1);
  if (std::ssize(bytes) <= most_bytes) return bytes;
  throw data_error(fmt::format("'{}' has more than {} bytes", path.string(), most_bytes), hint);
}

}  // namespace gradmill
