// SPDX-License-Identifier: Apache-2.0
// RecordBlocks: data files cut into blocks of records, in an order that can be resumed at any block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/records/bad_records.h"
#include "data/records/record.h"
#include "data/records/source_list.h"

namespace gradmill {

// The position of a block: units are in the order of the epoch, and blocks of a unit in the order of the file.
struct BlockPlace {
  int64_t epoch = 0, unit = 0, block = 0;
  bool operator==(const BlockPlace&) const = default;
};

struct RecordBlock {
  BlockPlace place;
  SourceFile file;
  // If each line is a record: whole unparsed lines, followed by kReadAhead readable bytes.
  std::string lines;
  int64_t offset = 0;  // position of the block in the decompressed file
  // For other formats: the records, and what was skipped among them.
  std::vector<Record> records;
  BadRecords bad{BadRecordPolicy::error};
  bool ends_unit = false;

  int64_t num_bytes() const;  // approximate size in memory
};

// Parses the lines, or iterates over the records. Bad records are reported to `bad`, which bad_records_of() must have
// made.
void for_each_record(const RecordBlock& block, const ReadOptions& options, BadRecords& bad,
                     const std::function<void(const Record&)>& visit);
// Makes the counter for the block's bad records. It knows the number of lines before the block.
BadRecords bad_records_of(const RecordBlock& block, BadRecordPolicy policy);

struct RecordBlocksOptions {
  ReadOptions read = {};
  int64_t block_bytes = int64_t{8} << 20;
  bool endless = false;  // repeat epoch after epoch
  bool shuffle = false;  // a different order of units in every epoch
  uint64_t seed = 0;
};

// JSONL and text by lines are cut at fixed positions: block b of a file has the lines that begin in its decompressed
// bytes [b, b + 1) * block_bytes. In a plain file each block is a unit, so shuffling mixes all of them, and any block
// can be read by itself. Compressed files, CSV, TSV and whole texts are single units, because their records cannot be
// found from the middle. Resuming inside one reads it again from its start: it decompresses (or, for CSV and the
// others, parses) and discards everything before, without tokenising it. Many files of moderate size therefore shuffle
// better than one compressed file, and resume faster.
//
// A block has at most block_bytes plus one record. The sizes of plain files are read once, at the start.
class RecordBlocks {
 public:
  // Throws a usage_error for a size out of range, and a data_error for a missing file.
  RecordBlocks(std::vector<SourceFile> files, RecordBlocksOptions options, const BlockPlace& from = {});
  ~RecordBlocks();

  // Returns nothing after the last block. Blocks may be empty. Throws a data_error for a file that cannot be read.
  // After any other exception, the next call returns the same block.
  std::optional<RecordBlock> next();
  int64_t num_units() const { return static_cast<int64_t>(units_.size()); }
  // Hash of everything that the blocks depend on: names and sizes of the files, and the options.
  uint64_t fingerprint() const;

 private:
  struct Unit {
    size_t file;
    int64_t part;  // a block of a plain file of lines; -1: the whole file
  };
  class LineCutter;
  class RecordCutter;

  void add_units(size_t file);
  bool by_lines(const SourceFile& file) const;
  RecordBlock read_block(const Unit& unit);
  void order_epoch();

  std::vector<SourceFile> files_;
  std::vector<int64_t> sizes_;  // -1: unknown
  RecordBlocksOptions options_;
  std::vector<Unit> units_;
  std::vector<int32_t> order_;  // order of the units in this epoch
  BlockPlace place_;
  std::unique_ptr<LineCutter> lines_;  // for the unit that is being read
  std::unique_ptr<RecordCutter> records_;
};

}  // namespace gradmill
