// SPDX-License-Identifier: Apache-2.0
// Compresses bytes for tests, and reads them back.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "data/records/byte_source.h"

namespace gradmill::test {

inline std::string gzip(std::string_view text) {
  z_stream stream = {};
  EXPECT_EQ(::deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string bytes(::deflateBound(&stream, text.size()), 0);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  ::deflateEnd(&stream);
  return bytes;
}

// With a checksum, like the zstd tool.
inline std::string zstd(std::string_view text, int window_log = 0) {
  ZSTD_CCtx* context = ::ZSTD_createCCtx();
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  if (window_log > 0) {
    ::ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
    ::ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  }
  std::string bytes(::ZSTD_compressBound(text.size()), 0);
  // Uses streaming, because a known size would shrink the window.
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  ZSTD_outBuffer out{bytes.data(), bytes.size(), 0};
  if (window_log > 0) ::ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush);
  EXPECT_EQ(::ZSTD_compressStream2(context, &out, &in, ZSTD_e_end), 0u);
  bytes.resize(out.pos);
  ::ZSTD_freeCCtx(context);
  return bytes;
}

inline std::string compress(std::string_view text, Compression compression) {
  switch (compression) {
    case Compression::gzip:
      return gzip(text);
    case Compression::zstd:
      return zstd(text);
    case Compression::none:
      break;
  }
  return std::string(text);
}

inline std::string ending_of(Compression compression) {
  return compression == Compression::gzip ? ".gz" : compression == Compression::zstd ? ".zst" : "";
}

inline std::string read_all(const std::filesystem::path& path, Compression compression) {
  std::string text;
  const std::unique_ptr<ByteSource> source = open_bytes(path, compression);
  for (std::string_view part = source->next(); !part.empty(); part = source->next()) text += part;
  return text;
}

}  // namespace gradmill::test
