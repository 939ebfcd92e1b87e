// SPDX-License-Identifier: Apache-2.0
// ByteSource: reads a file, which may be compressed, one buffer at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

namespace gradmill {

enum class Compression { none, gzip, zstd };

// Number of bytes after the result of next() that may be read as well, with any content: vector code reads whole
// blocks.
inline constexpr size_t kReadAhead = 64;

class ByteSource {
 public:
  explicit ByteSource(std::filesystem::path path) : path_(std::move(path)) {}
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // The next bytes, at most 256 KiB, valid until the next call; empty at the end. Throws a data_error that names the
  // file and the position if it cannot be read, is corrupt, or ends too early.
  virtual std::string_view next() = 0;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Opens a file or pipe. gzip: one or more members, possibly followed by zeros. zstd: one or more frames. Uses half a
// MiB of memory and, for zstd, the window that the file requires: 8 MiB at usual levels; more than 128 MiB is an error.
std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path, Compression compression);
// The same from byte `offset` of the decompressed data on; there are no bytes after the end. A plain file is not read
// before the offset, and a compressed one is decompressed up to it.
std::unique_ptr<ByteSource> open_bytes_at(const std::filesystem::path& path, Compression compression, int64_t offset);
// Bytes in memory; `path` is only their name. The kReadAhead bytes after them must be readable. They must outlive the
// source.
std::unique_ptr<ByteSource> open_memory(const std::filesystem::path& path, std::string_view bytes);

}  // namespace gradmill
