// SPDX-License-Identifier: Apache-2.0
// A buffered file of metrics that only grows.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "metrics/clock.h"

namespace gradmill {

// append() only copies into a buffer. The buffer is written by the first append() that comes a second after the last
// write, when it is large, and by flush(). Errors are data_errors that name the path. Bytes that could not be written
// stay in the buffer, and the next write continues exactly after the bytes that were written.
class AppendFile {
 public:
  // Creates the file and missing folders.
  explicit AppendFile(const std::filesystem::path& path, SecondsClock clock = monotonic_seconds);
  // Writes the remaining bytes. A failure cannot be reported.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view bytes);
  // Writes the buffer and syncs the file to disk.
  void flush();
  // Cuts the file before the first line that `keep` rejects (it gets the line without its end) or that has no end.
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
