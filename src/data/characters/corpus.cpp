// SPDX-License-Identifier: Apache-2.0
#include "data/characters/corpus.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "files/download.h"
#include "files/file_io.h"
#include "data/characters/self_text.h"
#include "files/sha256.h"
#include "core/utf8.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShakespeareUrl =
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt";
constexpr std::string_view kShakespeareHash = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed";

// The first `max_chars` characters, without a byte order mark. Bytes after them are not checked.
std::string checked_text(std::string bytes, const std::string& origin, int64_t max_chars) {
  const size_t begin = bytes.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  size_t end = begin;
  for (int64_t count = 0; end < bytes.size() && (max_chars == 0 || count < max_chars); ++count) {
    const auto point = decode_utf8(std::string_view(bytes).substr(end));
    if (!point) {
      throw data_error(fmt::format("'{}' is not UTF-8 text: invalid byte 0x{:02x} at offset {}", origin,
                                   static_cast<unsigned char>(bytes[end]), end),
                       "convert it, for example with iconv -t UTF-8");
    }
    end += point->num_bytes;
  }
  if (begin == end) throw data_error(fmt::format("'{}' is empty", origin), "give a file with text");
  bytes.erase(end);
  bytes.erase(0, begin);
  return bytes;
}

std::optional<fs::path> folder_from_env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return fs::path(value);
}

// If a file exists but cannot be accessed, read_bytes reports it.
bool is_missing(const fs::path& path) {
  std::error_code ignored;
  return fs::status(path, ignored).type() == fs::file_type::not_found;
}

bool is_shakespeare(const std::string& bytes) {
  return sha256_hex(std::as_bytes(std::span(bytes))) == kShakespeareHash;
}

Corpus load_shakespeare(const CorpusOptions& options) {
  const fs::path file = fs::path("shakespeare") / "input.txt";
  std::optional<fs::path> given = folder_from_env("GRADMILL_DATA"), cached = user_cache();
  if (given) *given /= file;
  if (cached) *cached /= file;
  const auto corpus = [&](const fs::path& path, std::string bytes) {
    return Corpus{"shakespeare", path.string(), checked_text(std::move(bytes), path.string(), options.max_chars)};
  };
  std::string looked;
  for (const auto& path : {given, cached}) {
    if (!path) continue;
    looked += fmt::format("{}'{}'", looked.empty() ? "" : " or ", path->string());
    if (is_missing(*path)) continue;
    std::string bytes = read_bytes(*path, kWholeFile);
    if (is_shakespeare(bytes)) return corpus(*path, std::move(bytes));
    if (options.download && path == cached) break;  // a broken copy in the cache is replaced
    throw data_error(
        fmt::format("'{}' is not the Shakespeare text: its SHA-256 is not {}", path->string(), kShakespeareHash),
        "remove it and pass --download, or give the path of another text");
  }
  if (!options.download) {
    throw data_error(
        fmt::format("no Shakespeare text at {}", looked.empty() ? "$GRADMILL_DATA" : looked),
        "pass --download to fetch it, or set GRADMILL_DATA to the folder that holds shakespeare/input.txt");
  }
  if (!cached) throw data_error("there is no cache folder to download to", "set HOME or XDG_CACHE_HOME");
  return corpus(*cached, download_file(kShakespeareUrl, *cached, kShakespeareHash));
}

Corpus load_path(const CorpusOptions& options) {
  const fs::path path = options.dataset;
  if (is_missing(path)) {
    throw data_error(fmt::format("there is no data set or file '{}'", options.dataset),
                     "use self, shakespeare or the path of a UTF-8 text file");
  }
  // A character has at most four bytes, so that a short part of a huge file is read quickly.
  constexpr int64_t kMark = static_cast<int64_t>(kByteOrderMark.size());
  const bool all = options.max_chars == 0 || options.max_chars > (kWholeFile - kMark) / 4;
  std::string bytes = read_bytes(path, all ? kWholeFile : options.max_chars * 4 + kMark);
  return {path.filename().string(), path.string(), checked_text(std::move(bytes), path.string(), options.max_chars)};
}

}  // namespace

// According to the XDG base directory specification, a relative $XDG_CACHE_HOME is ignored.
std::optional<fs::path> user_cache() {
  if (const auto cache = folder_from_env("XDG_CACHE_HOME"); cache && cache->is_absolute()) return *cache / "gradmill";
  if (const auto home = folder_from_env("HOME")) return *home / ".cache" / "gradmill";
  return std::nullopt;
}

Corpus load_corpus(const CorpusOptions& options) {
  if (options.max_chars < 0) {
    throw usage_error(fmt::format("the number of characters to use is {}", options.max_chars),
                      "give a positive number, or 0 for all");
  }
  if (options.dataset.empty()) {
    throw usage_error("no data set given", "use self, shakespeare or the path of a UTF-8 text file");
  }
  if (options.dataset == "self") {
    return {"self", "built in", checked_text(std::string(self_text()), "self", options.max_chars)};
  }
  if (options.dataset == "shakespeare") return load_shakespeare(options);
  return load_path(options);
}

}  // namespace gradmill
