// SPDX-License-Identifier: Apache-2.0
// The tokenisation cache: folders of token shards, named by a hash of all that they depend on.
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
  TokenizeReport report;  // of the tokenisation; only the manifest where the folder was there
};

// The tokens of the files, from `cache`/<key> where that is, else tokenised into it. The key is a hash of what is in
// the files, of the encoding and of the options that change the result: other data, another tokenizer or another
// column never meet. A file is read for its hash once; `cache`/files.json remembers it by path, size, times of change
// and inode. A file that changes meanwhile is a data_error. A folder is under its key only as a whole; one whose shards
// do not open, or are not what its manifest says, is made again. Processes may share a cache: of two that make the
// same, one wins.
CachedTokens cached_tokens(const std::filesystem::path& cache, const std::vector<SourceFile>& files,
                           const RecordEncoding& encoding, TokenizeOptions options, FileOps& ops = real_file_ops());

// $XDG_CACHE_HOME/gradmill/tokens, else ~/.cache/gradmill/tokens; nothing where there is no home.
std::optional<std::filesystem::path> default_token_cache();

// The SHA-256 of a file's bytes as they are on the disk. Throws a data_error.
std::string hash_file(const std::filesystem::path& path);

}  // namespace gradmill
