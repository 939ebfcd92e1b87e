// SPDX-License-Identifier: Apache-2.0
// Describes a data set, and what training would make of it, as text for a terminal.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokens/record_encoding.h"
#include "data/tokens/pack.h"
#include "data/records/record.h"
#include "tokenizer/tokenizer.h"

namespace gradmill {

struct InspectOptions {
  std::vector<std::string> sources;  // files, folders or patterns of records, or one path of token shards
  std::string tokenizer;             // empty: records are not tokenised, and shards are shown as ids
  std::string column = "text";
  std::string eos = "auto";  // as in CorpusTokenizer::text
  // With a tokenizer: how records become tokens, if they are not a single column of text.
  std::optional<RecordEncoding> encoding = {};
  ReadOptions read = {};
  PackOptions pack = {.context = 1024};
  int64_t batch_size = 32;          // rows per step
  int64_t max_documents = 100'000;  // number of documents to inspect; 0: all
  int64_t num_samples = 2;          // number of rows or documents to show
  int width = 80;
};

// Counts, lengths, samples as a model would see them (tokens that are not targets in brackets), and the steps per
// epoch. Throws a data_error for data that cannot be read.
std::string inspect_data(const InspectOptions& options);

// A row as the model sees it, with one sequence per paragraph. `targets` are as in MicroBatch.
std::string show_row(const MicroBatch& row, const Tokenizer* tokenizer, int width);

}  // namespace gradmill
