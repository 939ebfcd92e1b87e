// SPDX-License-Identifier: Apache-2.0
// tokenize_corpus: data files into a folder of token shards.
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
  ReadOptions read = {};                    // its fields are the encoding's
  int num_threads = 0;                      // beside the one that reads and writes
  int64_t shard_tokens = int64_t{1} << 27;  // a shard ends with the document that reaches this
  int64_t block_bytes = int64_t{1} << 20;   // what a thread takes at once
  // Called after every block; false gives up: an Error with ExitCode::interrupted, and no output.
  std::function<bool(const TokenizeProgress&)> progress = {};
  // Called when all is written, before it is there for others; may throw.
  std::function<void()> before_publishing = {};
  CrewNote note = {};
};

struct TokenizeReport {
  TokenManifest manifest;
  TokenizeProgress progress;
  std::string skipped;  // BadRecords::summary
};

// Documents are in the order of the files and their records, whatever the number of threads. The folder is there as a
// whole when it returns, and not at all after any failure; its parents are made. Memory: two blocks a thread, with
// their tokens, one block of a shard, and eight bytes for each of its documents. Throws a usage_error where `out`
// exists and is not an empty folder, a data_error for data that cannot be used or has no token, FileError where the
// disk fails.
TokenizeReport tokenize_corpus(std::vector<SourceFile> files, const RecordEncoding& encoding,
                               const std::filesystem::path& out, TokenizeOptions options,
                               FileOps& ops = real_file_ops());

}  // namespace gradmill
