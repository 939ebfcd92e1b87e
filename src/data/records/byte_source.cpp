// SPDX-License-Identifier: Apache-2.0
#include "data/records/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "files/descriptor.h"

namespace gradmill {
namespace {

constexpr size_t kChunk = size_t{1} << 18;
// The largest window that the zstd tool accepts by default.
constexpr int kMaxWindowLog = 27;

using Buffer = std::array<char, kChunk + kReadAhead>;

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path& path)
      : ByteSource(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat info {};
    if (!file_.is_open() || ::fstat(file_.get(), &info) != 0) throw failure(errno);
    if (S_ISDIR(info.st_mode)) {
      throw data_error(fmt::format("'{}' is a folder", path.string()), "give the path of a file");
    }
  }

  std::string_view next() override {
    for (;;) {
      const ssize_t got = ::read(file_.get(), buffer_->data(), kChunk);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw failure(errno);
      position_ += got;
      return {buffer_->data(), static_cast<size_t>(got)};
    }
  }
  int64_t position() const { return position_; }
  // Returns false for a pipe, which is left unchanged.
  bool seek(int64_t offset) {
    if (::lseek(file_.get(), offset, SEEK_SET) < 0) return false;
    position_ = offset;
    return true;
  }

 private:
  Error failure(int error) const {
    return data_error(fmt::format("cannot read '{}' at byte {}: {}", path().string(), position_,
                                  std::generic_category().message(error)),
                      error == EACCES ? "check its permissions" : "check the path and the disk");
  }

  Descriptor file_;
  int64_t position_ = 0;
  std::unique_ptr<Buffer> buffer_ = std::make_unique<Buffer>();
};

// The loop shared by all decoders: reads compressed bytes until an output buffer is full.
class DecodedSource : public ByteSource {
 public:
  DecodedSource(const std::filesystem::path& path, std::string_view format)
      : ByteSource(path), file_(path), format_(format) {}

  std::string_view next() final {
    size_t used = 0;
    while (used < kChunk) {
      if (input_.empty() && !has_pending_output()) input_ = file_.next();
      if (input_.empty() && !has_pending_output()) {
        if (!is_between_streams() || file_.position() == 0) throw cut_short();
        break;
      }
      used += decode(input_, buffer_->data() + used, kChunk - used);
    }
    return {buffer_->data(), used};
  }

 protected:
  // Consumes bytes from the front of `input` and returns the number of bytes written.
  virtual size_t decode(std::string_view& input, char* output, size_t capacity) = 0;
  // Whether the decoder has more output than fitted into the buffer.
  virtual bool has_pending_output() const = 0;
  // Whether the file may end here.
  virtual bool is_between_streams() const = 0;

  Error corrupt(std::string_view why) const {
    return data_error(fmt::format("'{}' is not valid {} near byte {}: {}", path().string(), format_,
                                  file_.position() - std::ssize(input_), why),
                      "fetch or compress the file again");
  }

 private:
  Error cut_short() const {
    return data_error(
        fmt::format("'{}' is cut short: its {} data ends early at byte {}", path().string(), format_, file_.position()),
        "fetch or compress the file again");
  }

  FileSource file_;
  std::string_view format_;
  std::string_view input_;
  std::unique_ptr<Buffer> buffer_ = std::make_unique<Buffer>();
};

class GzipSource : public DecodedSource {
 public:
  explicit GzipSource(const std::filesystem::path& path) : DecodedSource(path, "gzip") {
    constexpr int kLargestWindow = 15, kWithGzipHeader = 16;
    if (::inflateInit2(&stream_, kLargestWindow + kWithGzipHeader) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }

 private:
  size_t decode(std::string_view& input, char* output, size_t capacity) override {
    if (between_members_) {
      if (num_members_ > 0) input.remove_prefix(std::min(input.find_first_not_of('\0'), input.size()));
      if (input.empty()) return 0;
      between_members_ = false;
    }
    // zlib does not write to its input, although the pointer is not const.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
    stream_.next_out = reinterpret_cast<Bytef*>(output);
    stream_.avail_out = static_cast<uInt>(capacity);
    const int status = ::inflate(&stream_, Z_NO_FLUSH);
    input.remove_prefix(input.size() - stream_.avail_in);
    // A buffer error only means that no progress was possible yet.
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      throw corrupt(stream_.msg != nullptr ? stream_.msg : "unusable data");
    }
    output_was_full_ = stream_.avail_out == 0 && status != Z_STREAM_END;
    if (status == Z_STREAM_END) {
      ::inflateReset(&stream_);
      between_members_ = true;
      ++num_members_;
    }
    return capacity - stream_.avail_out;
  }
  bool has_pending_output() const override { return output_was_full_; }
  bool is_between_streams() const override { return between_members_; }

  z_stream stream_ = {};
  bool between_members_ = true;
  bool output_was_full_ = false;
  int64_t num_members_ = 0;
};

class ZstdSource : public DecodedSource {
 public:
  explicit ZstdSource(const std::filesystem::path& path) : DecodedSource(path, "zstd"), context_(::ZSTD_createDCtx()) {
    if (context_ == nullptr) throw std::bad_alloc();
    ::ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  }

 private:
  size_t decode(std::string_view& input, char* output, size_t capacity) override {
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer out{output, capacity, 0};
    const size_t status = ::ZSTD_decompressStream(context_.get(), &out, &in);
    input.remove_prefix(in.pos);
    if (::ZSTD_isError(status)) {
      if (::ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge) {
        throw data_error(fmt::format("'{}' needs more than {} MiB of memory to decompress", path().string(),
                                     int64_t{1} << (kMaxWindowLog - 20)),
                         "compress it again without zstd's --long or --ultra");
      }
      throw corrupt(::ZSTD_getErrorName(status));
    }
    output_was_full_ = out.pos == capacity && status != 0;
    between_frames_ = status == 0;
    return out.pos;
  }
  bool has_pending_output() const override { return output_was_full_; }
  bool is_between_streams() const override { return between_frames_; }

  struct Free {
    void operator()(ZSTD_DCtx* context) const { ::ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  bool between_frames_ = true;
  bool output_was_full_ = false;
};

class MemorySource : public ByteSource {
 public:
  MemorySource(const std::filesystem::path& path, std::string_view bytes) : ByteSource(path), bytes_(bytes) {}

  std::string_view next() override { return std::exchange(bytes_, {}); }

 private:
  std::string_view bytes_;
};

// Another source without its first bytes.
class SkippingSource : public ByteSource {
 public:
  SkippingSource(std::unique_ptr<ByteSource> source, int64_t offset)
      : ByteSource(source->path()), source_(std::move(source)), to_skip_(static_cast<size_t>(offset)) {}

  std::string_view next() override {
    for (;;) {
      std::string_view bytes = source_->next();
      const size_t skipped = std::min(bytes.size(), to_skip_);
      to_skip_ -= skipped;
      if (skipped < bytes.size() || bytes.empty()) return bytes.substr(skipped);
    }
  }

 private:
  std::unique_ptr<ByteSource> source_;
  size_t to_skip_;
};

}  // namespace

std::unique_ptr<ByteSource> open_memory(const std::filesystem::path& path, std::string_view bytes) {
  return std::make_unique<MemorySource>(path, bytes);
}

std::unique_ptr<ByteSource> open_bytes_at(const std::filesystem::path& path, Compression compression, int64_t offset) {
  assert(offset >= 0);
  if (offset == 0) return open_bytes(path, compression);
  if (compression == Compression::none) {
    auto file = std::make_unique<FileSource>(path);
    if (file->seek(offset)) return file;
    return std::make_unique<SkippingSource>(std::move(file), offset);
  }
  return std::make_unique<SkippingSource>(open_bytes(path, compression), offset);
}

std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path, Compression compression) {
  switch (compression) {
    case Compression::none:
      return std::make_unique<FileSource>(path);
    case Compression::gzip:
      return std::make_unique<GzipSource>(path);
    case Compression::zstd:
      return std::make_unique<ZstdSource>(path);
  }
  assert(false);
  return nullptr;
}

}  // namespace gradmill
