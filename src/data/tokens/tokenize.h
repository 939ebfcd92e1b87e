// SPDX-License-Identifier: Apache-2.0
// tokenize_corpus: converts data files to a folder of token shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/tokens/record_encoding.h"
#include "data/tokens/token_folder.h"
#include "data/crew_report.h"
#include "data/records/source_list.h"
#include "files/file_ops.h"

namespace gradmill {

struct TokenizeProgress {
  int64_t records = 0, tokens = 0, text_bytes = 0;
  double seconds = 0;
};

struct TokenizeOptions {
  ReadOptions read = {};                    // its fields are those of the encoding
  int num_threads = 0;                      // in addition to the thread that reads and writes
  int64_t shard_tokens = int64_t{1} << 27;  // a shard ends with the document that reaches this size
  int64_t block_bytes = int64_t{1} << 20;   // amount of data that a thread processes at a time
  // Called after every block. Returning false cancels: throws an Error with ExitCode::interrupted and leaves no output.
  std::function<bool(const TokenizeProgress&)> progress = {};
  // Called when everything is written, before the folder becomes visible; may throw.
  std::function<void()> before_publishing = {};
  CrewNote note = {};
};

struct TokenizeReport {
  TokenManifest manifest;
  TokenizeProgress progress;
  std::string skipped;  // BadRecords::summary
};

// Documents are in the order of the files and their records, for any number of threads. The folder appears complete on
// return, and not at all after a failure; missing parents are created. Memory: two blocks per thread with their tokens,
// one block of a shard, and eight bytes per document of the shard. Throws a usage_error if `out` exists and is not an
// empty folder, a data_error for data that cannot be used or has no token, and FileError if the disk fails.
TokenizeReport tokenize_corpus(std::vector<SourceFile> files, const RecordEncoding& encoding,
                               const std::filesystem::path& out, TokenizeOptions options,
                               FileOps& ops = real_file_ops());

}  // namespace gradmill
