// SPDX-License-Identifier: Apache-2.0
// RecordStream: the records of several files, one file after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/records/bad_records.h"
#include "data/records/record.h"
#include "data/records/source_list.h"

namespace gradmill {

// Throws a usage_error if the limit on records is not positive or is over 1 GiB.
void check_read_options(const ReadOptions& options);

// `bad` must outlive the reader.
std::unique_ptr<RecordReader> open_records(const SourceFile& file, const ReadOptions& options, BadRecords& bad);
std::unique_ptr<RecordReader> open_records(std::unique_ptr<ByteSource> bytes, RecordFormat format,
                                           const ReadOptions& options, BadRecords& bad);

// Only one file is open at a time; files without records are skipped. After an error the stream cannot be used any
// more.
class RecordStream : public RecordReader {
 public:
  // Throws the errors of check_read_options.
  RecordStream(std::vector<SourceFile> files, ReadOptions options);

  bool next(Record& record) override;

  int64_t num_records() const { return num_records_; }
  const BadRecords& bad_records() const { return bad_; }

 private:
  std::vector<SourceFile> files_;
  ReadOptions options_;
  BadRecords bad_;
  std::unique_ptr<RecordReader> reader_;
  size_t next_file_ = 0;
  int64_t num_records_ = 0;
};

}  // namespace gradmill
