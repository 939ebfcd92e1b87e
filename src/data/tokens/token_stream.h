// SPDX-License-Identifier: Apache-2.0
// TokenStream: training batches from data files of any size, tokenised on the fly, in limited memory and without files.
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
  PackOptions pack;            // block_tokens is unused: blocks are measured in bytes here
  PackedLoaderOptions loader;  // num_threads tokenise; prefetch and damaged are unused
  ReadOptions read;            // its fields are those of the encoding
  // Records of one block are packed and shuffled together: this is the shuffle buffer. The order of blocks is shuffled
  // too.
  int64_t block_bytes = int64_t{8} << 20;
};

// The position of a stream between two steps: a few numbers, for any size of data.
struct StreamPosition {
  int64_t step = 0;
  BlockPlace block;
  int64_t row = 0;           // the next row in the block
  uint64_t fingerprint = 0;  // of the data and the options; 0: unknown

  bool operator==(const StreamPosition&) const = default;
  std::string to_string() const;
  // Throws a data_error for a text that to_string did not write.
  static StreamPosition parse(std::string_view text);
};

struct StreamStats {
  LoaderStats loader;  // the results of its crew are blocks
  int64_t records = 0, epoch = 0;
  int64_t held_bytes = 0, peak_bytes = 0;  // memory of blocks: text, tokens, rows
};

// Threads tokenise and pack blocks of records (RecordBlocks), one block per thread. The rows, in the order of the
// blocks, are cut into steps of batch_size rows. Each token is in exactly one row per epoch; a step may end one epoch
// and begin the next. Rows depend only on the files, the encoding, the options and the seed, not on threads, ranks, the
// first step or the split into micro-batches.
//
// Ranks get disjoint rows of each step. Each rank tokenises all blocks, because only then it knows its rows without
// communication. If that is too slow, tokenise the data into shards once.
//
// Packing ends at the end of a block, so the last rows of a block may be padded, and with PackMode::concatenated the
// last token of a block has no target.
//
// Memory: num_threads + 2 blocks with their text and tokens: about 3 * block_bytes each for English.
//
// Resuming from a position reads the current block and, to keep the threads busy, one more per thread. In compressed
// files and tables, the file must be read up to the position (see RecordBlocks), but nothing is tokenised twice.
class TokenStream {
 public:
  // Throws a usage_error for an option out of range, and a data_error for missing files and for a position that belongs
  // to other data or options.
  TokenStream(std::vector<SourceFile> files, RecordEncoding encoding, TokenStreamOptions options,
              const StreamPosition& from = {});
  ~TokenStream();

  // Throws a data_error for data that cannot be used, unless it is skipped, and for data without any token.
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
  BlockPlace place_;  // position of block_
  int64_t row_;
  std::unique_ptr<Crew<Job, Rows>> crew_;  // last, so that its threads end before the data they use
};

}  // namespace gradmill
