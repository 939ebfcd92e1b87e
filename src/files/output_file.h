// SPDX-License-Identifier: Apache-2.0
// OutputFile: a new file written from start to end, with its checksum.
#pragma once

#include <string_view>

#include "files/file_ops.h"

namespace gradmill {

// The size and checksum that show whether a file has changed since it was written.
struct FileRecord {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
  bool operator==(const FileRecord&) const = default;
};

// Passes bytes to the system in blocks, without copying. Throws FileError. An unfinished file stays on disk; the caller
// that made its folder removes it.
class OutputFile {
 public:
  OutputFile(FileOps& ops, const std::filesystem::path& path) : ops_(ops), file_(ops.create(path)) {}
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  // Syncs the file: all data is on disk when this returns. No write may follow.
  FileRecord finish();

 private:
  FileOps& ops_;
  FileHandle file_;
  FileRecord record_;
};

// Replaces the file, or creates it and its missing folders. A reader, or a crash, at any moment sees either the old
// content or the new. Throws FileError and keeps the old file. Throws a usage_error if the path is not a regular file,
// such as a device.
void replace_file(const std::filesystem::path& path, std::string_view content, FileOps& ops = real_file_ops());

}  // namespace gradmill
