// SPDX-License-Identifier: Apache-2.0
// MappedFile: a file's bytes in memory, read-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "files/mapping_guard.h"

namespace gradmill {

// Owns the mapping: it moves, and its address stays when it does. The file must not be truncated while it is mapped:
// replace it by rename instead. Bytes that are gone, or that the disk cannot read, are zeros, and check() says so.
class MappedFile {
 public:
  // Throws data_error when the path is not a readable regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  // To be called after bytes were read and before what was read is used. Throws a data_error when bytes could not be
  // read since the file was opened.
  void check() const {
    if (guard_.is_lost()) throw_lost();
  }

  // Gives the memory of these bytes back to the system; they are read again when they are next touched. Bytes that are
  // not part of the mapping are left alone.
  void release(std::span<const std::byte> bytes) const;

 private:
  [[noreturn]] void throw_lost() const;

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  MappingGuard guard_;
};

}  // namespace gradmill
