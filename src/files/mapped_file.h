// SPDX-License-Identifier: Apache-2.0
// MappedFile: a file's bytes in memory, read-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace gradmill {

// Owns the mapping: it moves, and its address stays when it does. The file must not be truncated while it is mapped
// (replace it by rename instead): touching bytes that are gone ends the process.
class MappedFile {
 public:
  // Throws data_error when the path is not a readable regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // Gives the memory of these bytes back to the system; they are read again when they are next touched. Bytes that are
  // not part of the mapping are left alone.
  void release(std::span<const std::byte> bytes) const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace gradmill
