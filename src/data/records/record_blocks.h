// SPDX-License-Identifier: Apache-2.0
// RecordBlocks: data files cut into blocks of records, in an order that can be taken up at any block.
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

// A block of a pass: units come in the pass's order, blocks of a unit in that of the file.
struct BlockPlace {
  int64_t epoch = 0, unit = 0, block = 0;
  bool operator==(const BlockPlace&) const = default;
};

struct RecordBlock {
  BlockPlace place;
  SourceFile file;
  // Of a format where a line is a record: whole lines and kReadAhead bytes behind them, not yet parsed.
  std::string lines;
  int64_t offset = 0;  // of the file's bytes, decompressed: at which the part that they are of begins
  // Of other formats: the records, and what was skipped among them.
  std::vector<Record> records;
  BadRecords bad{BadRecordPolicy::error};
  bool ends_unit = false;

  int64_t num_bytes() const;  // about what it holds in memory
};

// Parses the lines, or goes through the records. What cannot be used is reported to `bad`, which bad_records_of() made.
void for_each_record(const RecordBlock& block, const ReadOptions& options, BadRecords& bad,
                     const std::function<void(const Record&)>& visit);
// Where the block's bad records are counted: it knows the lines before the block.
BadRecords bad_records_of(const RecordBlock& block, BadRecordPolicy policy);

struct RecordBlocksOptions {
  ReadOptions read = {};
  int64_t block_bytes = int64_t{8} << 20;
  bool endless = false;  // epoch after epoch
  bool shuffle = false;  // another order of units in every epoch
  uint64_t seed = 0;
};

// JSONL and texts by lines are cut where they stand: block b of a file has the lines that begin in its decompressed
// bytes [b, b + 1) * block_bytes. Of a plain file each block is a unit, so that shuffling mixes all of them, and any
// block is read by itself. Files that are compressed, and CSV, TSV and whole texts, whose records cannot be found from
// the middle, are units as a whole: to go on within one means to read it again from its start, decompressing (or, CSV
// and the others, parsing) and throwing away what comes before, without tokenising it. Many files of moderate size
// shuffle better than one that is compressed, and resume faster.
//
// A block has at most block_bytes and one record more. Sizes of plain files are taken once, at the start.
class RecordBlocks {
 public:
  // Throws a usage_error for a size out of range, a data_error for a file that is not there.
  RecordBlocks(std::vector<SourceFile> files, RecordBlocksOptions options, const BlockPlace& from = {});
  ~RecordBlocks();

  // Nothing behind the last block. Blocks may be empty. Throws a data_error for a file that cannot be read. After
  // another failure the next call gives the same block.
  std::optional<RecordBlock> next();
  int64_t num_units() const { return static_cast<int64_t>(units_.size()); }
  // Of what the blocks depend on: names and sizes of the files, and the options.
  uint64_t fingerprint() const;

 private:
  struct Unit {
    size_t file;
    int64_t part;  // of a plain file of lines; -1: the file as a whole
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
  std::vector<int32_t> order_;  // of this epoch's units
  BlockPlace place_;
  std::unique_ptr<LineCutter> lines_;  // of the unit that is being read
  std::unique_ptr<RecordCutter> records_;
};

}  // namespace gradmill
