// SPDX-License-Identifier: Apache-2.0
// The tokenisation cache: folders of token shards, named by a hash of everything that they depend on.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tokens/tokenize.h"

namespace gradmill {

struct CachedTokens {
  std::filesystem::path folder;
  bool was_there = false;
  TokenizeReport report;  // from the tokenisation; only the manifest if the folder existed
};

// The tokens of the files: from `cache`/<key> if it exists, otherwise tokenised into it. The key is a hash of the
// contents of the files, the encoding and the options that affect the result, so different data, tokenizers or columns
// never collide. A file is read only once for its hash; `cache`/files.json records it by path, size, change times and
// inode. A file that changes in the meantime is a data_error. A folder appears under its key only when complete; if its
// shards cannot be opened or do not match the manifest, it is made again. Processes may share a cache: if two make the
// same folder, one wins.
CachedTokens cached_tokens(const std::filesystem::path& cache, const std::vector<SourceFile>& files,
                           const RecordEncoding& encoding, TokenizeOptions options, FileOps& ops = real_file_ops());

// $XDG_CACHE_HOME/gradmill/tokens, otherwise ~/.cache/gradmill/tokens; nothing if there is no home folder.
std::optional<std::filesystem::path> default_token_cache();

// The SHA-256 of a file's bytes on disk. Throws a data_error.
std::string hash_file(const std::filesystem::path& path);

}  // namespace gradmill
