// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/token_cache.h"

#include <sys/stat.h>

#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/characters/corpus.h"
#include "files/file_io.h"
#include "files/sha256.h"
#include "data/tokens/shard_set.h"
#include "files/output_file.h"
#include "files/strict_json.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

constexpr int kKeyVersion = 1;  // version of the contents of a folder
constexpr int64_t kMostMemoryBytes = int64_t{1} << 26;

// Text that changes when a regular file's content changes, as far as the system can tell. Empty for other files.
std::string stamp_of(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return "";
  return fmt::format("{} {} {}.{:09} {}.{:09}", info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
                     info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
}

// A file that was modified so recently may be written again without a change of its times.
bool is_young(const fs::path& file) {
  constexpr time_t kYoung = 2;
  struct stat info {};
  return ::stat(file.c_str(), &info) != 0 || info.st_mtim.tv_sec + kYoung >= ::time(nullptr);
}

// Checks that files do not change between hashing, which names the folder in the cache, and tokenising.
class UnchangedFiles {
 public:
  explicit UnchangedFiles(const std::vector<SourceFile>& files) {
    for (const SourceFile& file : files) stamps_.emplace_back(file.path, stamp_of(file.path));
  }
  void expect_unchanged() const {
    for (const auto& [path, stamp] : stamps_) {
      if (stamp == stamp_of(path)) continue;
      throw data_error(fmt::format("'{}' changed while it was being read", path.string()),
                       "start again when no other process writes to it");
    }
  }

 private:
  std::vector<std::pair<fs::path, std::string>> stamps_;
};

// Hashes of files that were read before. If this record is lost or unreadable, only time is lost.
class FileHashes {
 public:
  explicit FileHashes(const fs::path& cache) : path_(cache / "files.json") {
    std::error_code ignored;
    if (!fs::exists(path_, ignored)) return;
    try {
      json_ = parse_strict_json(read_whole(path_, kMostMemoryBytes, ""), path_.string());
    } catch (const Error&) {
    }
    if (!json_.is_object()) json_ = nlohmann::json::object();
  }

  std::string hash(const fs::path& file) {
    const std::string stamp = is_young(file) ? "" : stamp_of(file),
                      name = fs::absolute(file).lexically_normal().string();
    const auto known = json_.find(name);
    if (!stamp.empty() && known != json_.end() && known->is_array() && known->size() == 2 && known->at(0) == stamp &&
        known->at(1).is_string()) {
      return known->at(1);
    }
    std::string hash = hash_file(file);
    if (!stamp.empty()) {
      json_[name] = {stamp, hash};
      changed_ = true;
    }
    return hash;
  }

  void save(FileOps& ops) {
    if (!changed_) return;
    try {
      replace_file(path_, json_.dump(0, ' ', false, nlohmann::json::error_handler_t::replace), ops);
    } catch (const FileError&) {
    }
  }

 private:
  fs::path path_;
  nlohmann::json json_ = nlohmann::json::object();
  bool changed_ = false;
};

std::string key_of(const fs::path& cache, const std::vector<SourceFile>& files, const RecordEncoding& encoding,
                   const TokenizeOptions& options, FileOps& ops) {
  FileHashes hashes(cache);
  Sha256 key;
  key.add(fmt::format("{}\n{}\n{} {}\n", kKeyVersion, encoding.fingerprint, encoding.vocab.hash, encoding.vocab.size));
  key.add(fmt::format("{} {} {} {} {}\n", static_cast<int>(options.read.bad_records), options.read.max_record_bytes,
                      options.read.text_lines, options.read.tsv_quotes, options.shard_tokens));
  for (const SourceFile& file : files) {
    key.add(fmt::format("{} {} {}\n", static_cast<int>(file.format), static_cast<int>(file.compression),
                        hashes.hash(file.path)));
  }
  hashes.save(ops);
  return key.hex();
}

// Opening checks sizes and indices; tokens are checked when they are read.
bool is_whole(const fs::path& folder, const TokenManifest& manifest) try {
  const ShardSet shards(list_token_shards(folder));
  return shards.vocab() == manifest.vocab && shards.num_tokens() == manifest.num_tokens() &&
         shards.num_documents() == manifest.num_documents();
} catch (const Error&) {
  return false;
}

std::optional<TokenManifest> find_whole(const fs::path& folder) try {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return std::nullopt;
  TokenManifest manifest = read_token_manifest(folder);
  if (!is_whole(folder, manifest)) return std::nullopt;
  return manifest;
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace

std::string hash_file(const fs::path& path) {
  Sha256 hash;
  const std::unique_ptr<ByteSource> source = open_bytes(path, Compression::none);
  for (std::string_view bytes = source->next(); !bytes.empty(); bytes = source->next()) hash.add(bytes);
  return hash.hex();
}

CachedTokens cached_tokens(const fs::path& cache, const std::vector<SourceFile>& files, const RecordEncoding& encoding,
                           TokenizeOptions options, FileOps& ops) {
  std::error_code error;
  fs::create_directories(cache, error);
  if (error) throw FileError(cache, "make the folder", error.value());
  const UnchangedFiles sources(files);
  options.before_publishing = [&] { sources.expect_unchanged(); };
  CachedTokens result;
  result.folder = cache / key_of(cache, files, encoding, options, ops);
  if (std::optional<TokenManifest> manifest = find_whole(result.folder)) {
    result.was_there = true;
    result.report.manifest = std::move(*manifest);
    return result;
  }
  remove_tree(ops, result.folder);
  try {
    result.report = tokenize_corpus(files, encoding, result.folder, options, ops);
  } catch (const FileError& failure) {
    // If another process was faster, renaming onto its folder fails.
    const bool lost = failure.reason() == ENOTEMPTY || failure.reason() == EEXIST;
    std::optional<TokenManifest> theirs = lost ? find_whole(result.folder) : std::nullopt;
    if (!theirs) throw;
    result.report.manifest = std::move(*theirs);
  }
  return result;
}

std::optional<fs::path> default_token_cache() {
  const std::optional<fs::path> cache = user_cache();
  if (!cache) return std::nullopt;
  return *cache / "tokens";
}

}  // namespace gradmill
