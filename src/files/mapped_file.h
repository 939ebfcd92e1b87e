// SPDX-License-Identifier: Apache-2.0
// MappedFile: a file's bytes in memory, read-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace gradmill {

// Owns the mapping. Moving the object keeps the address. The file must not be truncated while it is mapped (replace it
// by rename instead): access to bytes beyond its end kills the process.
class MappedFile {
 public:
  // Throws data_error when the path is not a readable regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // Returns the memory of these bytes to the system; the next access reads them again. Bytes outside the mapping are
  // ignored.
  void release(std::span<const std::byte> bytes) const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace gradmill
