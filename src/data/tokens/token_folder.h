// SPDX-License-Identifier: Apache-2.0
// Folders of token shards: what tokenisation writes, and what a user names as tokenised data.
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

// tokens.json: what the folder holds, for people and for the check that nothing is missing.
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
// Throws a data_error for a file that is missing or makes no sense.
TokenManifest read_token_manifest(const std::filesystem::path& folder);

// Whether the path is a shard or a folder with some: by its name and what is in it, not by reading shards.
bool is_token_data(const std::filesystem::path& path);
// The shards of a folder (those its manifest names, else all with the ending, sorted), or the one shard that `path` is.
// Throws a data_error where there is none.
std::vector<std::filesystem::path> list_token_shards(const std::filesystem::path& path);

}  // namespace gradmill
