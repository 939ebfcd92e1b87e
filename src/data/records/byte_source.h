// SPDX-License-Identifier: Apache-2.0
// ByteSource: the bytes of a file that may be compressed, a buffer at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

namespace gradmill {

enum class Compression { none, gzip, zstd };

// Bytes behind what next() returns that may be read too, whatever they hold: vector code reads whole blocks.
inline constexpr size_t kReadAhead = 64;

class ByteSource {
 public:
  explicit ByteSource(std::filesystem::path path) : path_(std::move(path)) {}
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // The bytes that follow, at most 256 KiB, valid until the next call; empty at the end. Throws a data_error that names
  // the file and the position in it where it cannot be read, is corrupt, or ends too early.
  virtual std::string_view next() = 0;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Opens a file or pipe. gzip: one member or several, and zeros behind them. zstd: one frame or several. Memory is half
// a MiB, and for zstd the window the file asks for: 8 MiB at usual levels, more than 128 MiB is an error.
std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path, Compression compression);
// The same from byte `offset` of the decompressed bytes on; beyond the end there are none. A plain file is not read
// before it, a compressed one is decompressed up to it.
std::unique_ptr<ByteSource> open_bytes_at(const std::filesystem::path& path, Compression compression, int64_t offset);
// Bytes that are in memory, whatever their file's name; kReadAhead bytes behind them must be readable. They must
// outlive the source.
std::unique_ptr<ByteSource> open_memory(const std::filesystem::path& path, std::string_view bytes);

}  // namespace gradmill
