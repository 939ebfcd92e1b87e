// SPDX-License-Identifier: Apache-2.0
// Folders of token shards, which tokenisation writes and users name as tokenised data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokens/token_shard.h"
#include "files/file_ops.h"

namespace gradmill {

inline constexpr std::string_view kShardEnding = ".tokens";
inline constexpr std::string_view kTokenManifest = "tokens.json";

// tokens.json: describes the folder for people, and lists its files so that missing ones are noticed.
struct TokenManifest {
  struct Shard {
    std::string file;
    int64_t tokens = 0, documents = 0;
    bool operator==(const Shard&) const = default;
  };
  std::vector<Shard> shards;
  VocabId vocab;
  bool has_learned = false;
  int64_t records = 0, skipped = 0;
  std::vector<std::string> sources;
  std::string encoding;  // RecordEncoding::fingerprint

  int64_t num_tokens() const;
  int64_t num_documents() const;
};

void write_token_manifest(const std::filesystem::path& folder, const TokenManifest& manifest, FileOps& ops);
// Throws a data_error for a file that is missing or invalid.
TokenManifest read_token_manifest(const std::filesystem::path& folder);

// Whether the path is a shard, or a folder with shards. Decided by names, without reading shards.
bool is_token_data(const std::filesystem::path& path);
// The shards of a folder (those in its manifest, otherwise all files with the ending, sorted), or the single shard
// `path`. Throws a data_error if there are none.
std::vector<std::filesystem::path> list_token_shards(const std::filesystem::path& path);

}  // namespace gradmill
