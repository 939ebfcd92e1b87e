// SPDX-License-Identifier: Apache-2.0
#include "data/records/record_stream.h"

#include <cassert>

#include "core/error.h"
#include "data/records/csv_reader.h"
#include "data/records/jsonl_reader.h"
#include "data/records/text_reader.h"

namespace gradmill {
namespace {

// The JSON library counts in 32 bits.
constexpr int64_t kLargestRecord = int64_t{1} << 30;

}  // namespace

void check_read_options(const ReadOptions& options) {
  if (options.max_record_bytes >= 1 && options.max_record_bytes <= kLargestRecord) return;
  throw usage_error(fmt::format("a limit of {} bytes on records", options.max_record_bytes),
                    fmt::format("give a number from 1 to {}", kLargestRecord));
}

std::unique_ptr<RecordReader> open_records(const SourceFile& file, const ReadOptions& options, BadRecords& bad) {
  return open_records(open_bytes(file.path, file.compression), file.format, options, bad);
}

std::unique_ptr<RecordReader> open_records(std::unique_ptr<ByteSource> bytes, RecordFormat format,
                                           const ReadOptions& options, BadRecords& bad) {
  switch (format) {
    case RecordFormat::jsonl:
      return std::make_unique<JsonlReader>(std::move(bytes), options, bad);
    case RecordFormat::text:
      return open_text(std::move(bytes), options, bad);
    case RecordFormat::csv:
      return std::make_unique<CsvReader>(std::move(bytes), CsvDialect{}, options, bad);
    case RecordFormat::tsv:
      return std::make_unique<CsvReader>(std::move(bytes), CsvDialect{'\t', options.tsv_quotes}, options, bad);
  }
  assert(false);
  return nullptr;
}

RecordStream::RecordStream(std::vector<SourceFile> files, ReadOptions options)
    : files_(std::move(files)), options_(std::move(options)), bad_(options_.bad_records) {
  check_read_options(options_);
}

bool RecordStream::next(Record& record) {
  for (;;) {
    if (reader_ == nullptr) {
      if (next_file_ == files_.size()) return false;
      reader_ = open_records(files_[next_file_++], options_, bad_);
    }
    if (reader_->next(record)) {
      ++num_records_;
      return true;
    }
    reader_.reset();
  }
}

}  // namespace gradmill
