// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/token_folder.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.h"
#include "files/file_io.h"
#include "files/output_file.h"
#include "files/strict_json.h"

namespace gradmill {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "gradmill-tokens";
constexpr int64_t kMostManifestBytes = int64_t{1} << 28;

bool is_shard_name(const fs::path& path) {
  return path.extension() == kShardEnding && !path.filename().string().starts_with('.');
}

std::vector<fs::path> shards_by_name(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (is_shard_name(entry->path())) paths.push_back(entry->path());
  }
  std::ranges::sort(paths);
  return paths;
}

// A name in a manifest must not lead out of its folder.
bool is_plain_name(const std::string& name) { return is_shard_name(name) && fs::path(name).filename() == name; }

TokenManifest from_json(const nlohmann::json& json) {
  TokenManifest manifest;
  if (json.at("format") != kFormat || json.at("version") != 1) throw std::runtime_error("unknown format");
  for (const nlohmann::json& shard : json.at("shards")) {
    manifest.shards.push_back({shard.at("file"), shard.at("tokens"), shard.at("documents")});
    if (!is_plain_name(manifest.shards.back().file)) throw std::runtime_error("a shard's name makes no sense");
  }
  const std::string hash = json.at("vocab_hash");
  std::from_chars(hash.data(), hash.data() + hash.size(), manifest.vocab.hash, 16);
  manifest.vocab.size = json.at("vocab_size");
  manifest.has_learned = json.at("has_learned");
  manifest.records = json.at("records");
  manifest.skipped = json.at("skipped");
  manifest.sources = json.at("sources").get<std::vector<std::string>>();
  manifest.encoding = json.at("encoding");
  return manifest;
}

}  // namespace

int64_t TokenManifest::num_tokens() const {
  return std::accumulate(shards.begin(), shards.end(), int64_t{0},
                         [](int64_t sum, const Shard& shard) { return sum + shard.tokens; });
}

int64_t TokenManifest::num_documents() const {
  return std::accumulate(shards.begin(), shards.end(), int64_t{0},
                         [](int64_t sum, const Shard& shard) { return sum + shard.documents; });
}

void write_token_manifest(const fs::path& folder, const TokenManifest& manifest, FileOps& ops) {
  nlohmann::ordered_json json = {{"format", kFormat},
                                 {"version", 1},
                                 {"tokens", manifest.num_tokens()},
                                 {"documents", manifest.num_documents()},
                                 {"records", manifest.records},
                                 {"skipped", manifest.skipped},
                                 {"vocab_size", manifest.vocab.size},
                                 {"vocab_hash", fmt::format("{:016x}", manifest.vocab.hash)},
                                 {"has_learned", manifest.has_learned},
                                 {"encoding", manifest.encoding},
                                 {"sources", manifest.sources},
                                 {"shards", nlohmann::ordered_json::array()}};
  for (const TokenManifest::Shard& shard : manifest.shards) {
    json["shards"].push_back({{"file", shard.file}, {"tokens", shard.tokens}, {"documents", shard.documents}});
  }
  // Paths may contain any bytes.
  replace_file(folder / kTokenManifest, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", ops);
}

TokenManifest read_token_manifest(const fs::path& folder) {
  const fs::path path = folder / kTokenManifest;
  const nlohmann::json json =
      parse_strict_json(read_whole(path, kMostManifestBytes, "tokenise the data again"), path.string());
  try {
    return from_json(json);
  } catch (const std::exception& error) {
    throw data_error(fmt::format("{}: {}", path.string(), error.what()), "tokenise the data again");
  }
}

bool is_token_data(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return is_shard_name(path) && fs::exists(path, ignored);
  return fs::exists(path / kTokenManifest, ignored) || !shards_by_name(path).empty();
}

std::vector<fs::path> list_token_shards(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return {path};
  if (!fs::exists(path / kTokenManifest, ignored)) {
    std::vector<fs::path> paths = shards_by_name(path);
    if (paths.empty()) {
      throw data_error(fmt::format("no token shards in '{}'", path.string()),
                       "give a folder that 'gradmill data tokenize' wrote");
    }
    return paths;
  }
  std::vector<fs::path> paths;
  for (const TokenManifest::Shard& shard : read_token_manifest(path).shards) paths.push_back(path / shard.file);
  return paths;
}

}  // namespace gradmill
