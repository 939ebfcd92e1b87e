// SPDX-License-Identifier: Apache-2.0
#include "metrics/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace gradmill {
namespace {

constexpr double kWriteInterval = 1;  // in seconds
constexpr size_t kWriteBytes = size_t{1} << 18;

Error file_error(std::string_view verb, const std::filesystem::path& path, int error) {
  return data_error(fmt::format("cannot {} '{}': {}", verb, path.string(), std::generic_category().message(error)),
                    "check its permissions and the disk");
}

void make_parent(const std::filesystem::path& path) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error) throw file_error("make the folder", path.parent_path(), error.value());
}

// Returns how many bytes were written. If they are fewer than given, errno is set.
size_t write_some(int descriptor, std::string_view bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (written > 0) {
      done += static_cast<size_t>(written);
    } else if (errno != EINTR) {
      break;
    }
  }
  return done;
}

}  // namespace

AppendFile::AppendFile(const std::filesystem::path& path, SecondsClock clock) : path_(path), clock_(std::move(clock)) {
  make_parent(path_);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw file_error("write", path_, errno);
  last_write_ = clock_();
}

AppendFile::~AppendFile() {
  write_some(descriptor_, buffer_);
  ::close(descriptor_);
}

void AppendFile::append(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kWriteBytes || clock_() - last_write_ >= kWriteInterval) write();
}

void AppendFile::write() {
  last_write_ = clock_();
  const size_t done = write_some(descriptor_, buffer_);
  const int error = errno;
  buffer_.erase(0, done);
  if (!buffer_.empty()) throw file_error("write", path_, error);
}

void AppendFile::flush() {
  write();
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL) throw file_error("write", path_, errno);
}

bool AppendFile::is_empty() const {
  struct stat info {};
  return buffer_.empty() && ::fstat(descriptor_, &info) == 0 && info.st_size == 0;
}

void AppendFile::cut_lines(const std::function<bool(std::string_view)>& keep) {
  write();
  std::ifstream file(path_, std::ios::binary);
  int64_t end = 0;
  // A last line without a line end was cut short by a crash: getline reads it and reaches the end of the file.
  for (std::string line; std::getline(file, line) && !file.eof() && keep(line);) end += std::ssize(line) + 1;
  if (::ftruncate(descriptor_, end) != 0) throw file_error("cut", path_, errno);
}

}  // namespace gradmill
