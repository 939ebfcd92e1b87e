// SPDX-License-Identifier: Apache-2.0
// A file of metrics: it grows, through a buffer.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "metrics/clock.h"

namespace gradmill {

// A file that only grows. append() costs a copy; the bytes reach the file with the first append that comes a second
// after the last write, when many have gathered, and at flush(). Errors are data_errors that name the path; bytes that
// could not be written stay, and the next write goes on exactly behind those that could.
class AppendFile {
 public:
  // Makes missing folders and the file.
  explicit AppendFile(const std::filesystem::path& path, SecondsClock clock = monotonic_seconds);
  // Writes what is left, and cannot say so if that fails.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view bytes);
  // Writes, and waits until the disk has it.
  void flush();
  // Cuts the file before the first line (without its end) that is not to be kept, or that has no end.
  void cut_lines(const std::function<bool(std::string_view)>& keep);
  bool is_empty() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  void write();

  std::filesystem::path path_;
  SecondsClock clock_;
  int descriptor_ = -1;
  std::string buffer_;
  double last_write_ = 0;
};

}  // namespace gradmill
