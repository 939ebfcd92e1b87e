// SPDX-License-Identifier: Apache-2.0
// Learns a byte-level BPE from data files and writes a folder that Hugging Face's libraries can load.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/records/record.h"
#include "data/records/source_list.h"
#include "files/file_ops.h"
#include "tokenizer/bpe_trainer.h"

namespace gradmill {

struct TrainTokenizerOptions {
  BpeTrainerOptions bpe = {.special_tokens = {"<|endoftext|>"}};  // the first special token ends a document
  ReadOptions read = {};
  std::string column = "text";
  int64_t max_bytes = 0;  // bytes of text to learn from, taken from the start; 0: all
  // Called every few thousand records. Returning false cancels with an Error with ExitCode::interrupted.
  std::function<bool(int64_t records, int64_t text_bytes)> progress = {};
};

struct TrainTokenizerReport {
  int64_t records = 0, text_bytes = 0, vocab_size = 0, num_merges = 0;
  std::string skipped;  // BadRecords::summary
};

// Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json. The folder appears complete or not at all.
// Memory: the distinct words of the text. Throws the errors of tokenize_corpus.
TrainTokenizerReport train_tokenizer(std::vector<SourceFile> files, const std::filesystem::path& out,
                                     const TrainTokenizerOptions& options, FileOps& ops = real_file_ops());

}  // namespace gradmill
