// SPDX-License-Identifier: Apache-2.0
// OutputFile: a new file written from front to back, with its checksum.
#pragma once

#include <string_view>

#include "files/file_ops.h"

namespace gradmill {

// What tells whether a file is still the one that was written.
struct FileRecord {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
  bool operator==(const FileRecord&) const = default;
};

// Bytes go to the system as they come, uncopied, in blocks. Throws FileError. A file that was not finished stays behind
// as it is: whoever made its folder removes it.
class OutputFile {
 public:
  OutputFile(FileOps& ops, const std::filesystem::path& path) : ops_(ops), file_(ops.create(path)) {}
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  // Everything is on the disk once it returns. Nothing may follow.
  FileRecord finish();

 private:
  FileOps& ops_;
  FileHandle file_;
  FileRecord record_;
};

// Replaces the file, or makes it and missing folders, such that a reader (or a crash) at any moment finds the old
// content or the new. Throws FileError and leaves the old one, a usage_error for what is no file: devices stay.
void replace_file(const std::filesystem::path& path, std::string_view content, FileOps& ops = real_file_ops());

}  // namespace gradmill
