// SPDX-License-Identifier: Apache-2.0
// TokenStream: training batches from data files of any size, tokenised on the way, in bounded memory and without files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokens/held_bytes.h"
#include "data/tokens/record_encoding.h"
#include "data/crew.h"
#include "data/tokens/packed_loader.h"
#include "data/records/record_blocks.h"

namespace gradmill {

struct TokenStreamOptions {
  PackOptions pack;            // block_tokens is not used: blocks are counted in bytes here
  PackedLoaderOptions loader;  // num_threads tokenise; prefetch and damaged are not used
  ReadOptions read;            // its fields are the encoding's
  // Records of one block are packed and shuffled together: the shuffle buffer. The order of blocks is shuffled too.
  int64_t block_bytes = int64_t{8} << 20;
};

// Where a stream stands, between two steps: a few numbers, whatever the data's size.
struct StreamPosition {
  int64_t step = 0;
  BlockPlace block;
  int64_t row = 0;           // of the block: the next one
  uint64_t fingerprint = 0;  // of the data and the options; 0: not known

  bool operator==(const StreamPosition&) const = default;
  std::string to_string() const;
  // Throws a data_error for a text that to_string did not write.
  static StreamPosition parse(std::string_view text);
};

struct StreamStats {
  LoaderStats loader;  // results of its crew are blocks
  int64_t records = 0, epoch = 0;
  int64_t held_bytes = 0, peak_bytes = 0;  // of blocks: text, tokens, rows
};

// Blocks of records (RecordBlocks) are tokenised and packed by threads, each block by one, and their rows, in the order
// of the blocks, are cut into steps of batch_size rows. Each token is in exactly one row an epoch; a step may end one
// epoch and begin the next. Rows depend on the files, the encoding, the options and the seed alone: not on threads,
// ranks, the start, or the cut into micro-batches.
//
// Ranks get disjoint rows of each step. Each rank tokenises all blocks, since only then it knows which rows are whose
// without asking the others; where that is too slow, tokenise the data into shards once.
//
// Packing ends at a block's end, so a block's last rows may be padded, and with PackMode::concatenated the last token
// of a block has no target.
//
// Memory: num_threads + 2 blocks, each of its text and its tokens: about 3 * block_bytes for English.
//
// Going on from a position reads the block it is in and those behind it: one a thread. In compressed files and tables
// the file has to be read up to there (see RecordBlocks), but nothing is tokenised twice.
class TokenStream {
 public:
  // Throws a usage_error for an option out of range, a data_error for files that are not there, and for a position of
  // other data or options.
  TokenStream(std::vector<SourceFile> files, RecordEncoding encoding, TokenStreamOptions options,
              const StreamPosition& from = {});
  ~TokenStream();

  // Throws a data_error for what cannot be used, unless it is skipped, and for data without any token.
  StepBatch next();
  StreamPosition position() const;
  StreamStats stats() const;
  const BadRecords& bad_records() const { return bad_; }

 private:
  struct Rows;
  using Block = std::shared_ptr<const Rows>;  // shared by the rows of a step
  struct Job;

  Rows make(const Job& job) const;
  void next_block();
  using RowsOfStep = std::vector<std::pair<Block, int64_t>>;
  RowsOfStep next_rows();
  // `tokens_before` each row of the step.
  std::vector<MicroBatch> micro_batches(const RowsOfStep& rows, std::span<const int64_t> tokens_before,
                                        int64_t rank) const;

  RecordEncoding encoding_;
  TokenStreamOptions options_;
  mutable MemoryGauge gauge_;
  RecordBlocks blocks_;
  uint64_t fingerprint_;
  BadRecords bad_;
  LoaderStats loader_;
  int64_t step_, num_records_ = 0, empty_blocks_from_ = -1;
  Block block_;
  BlockPlace place_;  // of block_
  int64_t row_;
  std::unique_ptr<Crew<Job, Rows>> crew_;  // last, so that its threads end before what they use
};

}  // namespace gradmill
