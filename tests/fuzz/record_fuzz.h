// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets of record readers: a source in memory, and checks that hold for any bytes.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "data/records/bad_records.h"
#include "data/records/byte_source.h"
#include "data/records/record.h"

namespace gradmill::fuzz {

// A failed check ends the process, so that the fuzzer keeps the input.
inline void require(bool holds) {
  if (!holds) std::abort();
}

// Returns a text in pieces of a given size, each in separate memory.
class PiecesSource : public ByteSource {
 public:
  PiecesSource(std::string_view text, size_t size) : ByteSource("input"), text_(text), size_(size) {}
  std::string_view next() override {
    const std::string_view part = text_.substr(0, size_);
    text_.remove_prefix(part.size());
    piece_ = std::make_unique<char[]>(part.size() + kReadAhead);
    std::copy(part.begin(), part.end(), piece_.get());
    return {piece_.get(), part.size()};
  }

 private:
  std::string_view text_;
  size_t size_;
  std::unique_ptr<char[]> piece_;
};

// The output of a reader as text: records, what was skipped, and the error at the end.
struct ReadResult {
  std::string records;
  int64_t num_records = 0, num_skipped = 0;
  std::string error;
  bool operator==(const ReadResult&) const = default;
};

inline void check_record(const Record& record, int64_t last_line) {
  require(record.line > last_line && record.fields().size() <= kMaxRecordFields);
  for (const RecordField& field : record.fields()) {
    require(simdjson::validate_utf8(field.name.data(), field.name.size()));
    require(simdjson::validate_utf8(field.value.data(), field.value.size()));
    require(record.find(field.name) == &field);
  }
}

// open(source, options, bad) creates the reader.
template <class Open>
ReadResult read_all(std::string_view text, size_t piece, const ReadOptions& options, Open&& open) {
  ReadResult result;
  BadRecords bad(options.bad_records);
  try {
    const std::unique_ptr<RecordReader> reader = open(std::make_unique<PiecesSource>(text, piece), options, bad);
    Record record;
    for (int64_t last_line = 0; reader->next(record); last_line = record.line) {
      check_record(record, last_line);
      ++result.num_records;
      result.records += fmt::format("{}:", record.line);
      for (const RecordField& field : record.fields()) {
        result.records += fmt::format("{}={}={};", field.name, field.is_json, field.value);
      }
    }
  } catch (const Error& error) {
    result.error = error.what();
    require(error.code() == ExitCode::data && result.error.find("'input' line ") == 0);
    require(result.error.find('\n') == std::string::npos);
  }
  result.num_skipped = bad.num_skipped();
  require(bad.summary().empty() == (result.num_skipped == 0));
  return result;
}

// The division of the bytes into buffers must not matter, and a strict reader must return the same as a lenient one up
// to the first bad record. The first byte of the input selects the division, the second the limit on records.
template <class Open>
void check_reader(std::string_view input, Open&& open) {
  if (input.size() < 2) return;
  const size_t piece = 1 + static_cast<uint8_t>(input[0]) % 64;
  const int64_t limit = input[1] % 2 == 0 ? 48 : 1 << 16;
  const std::string_view text = input.substr(2);
  ReadOptions options{.bad_records = BadRecordPolicy::skip, .max_record_bytes = limit};
  const ReadResult whole = read_all(text, size_t{1} << 18, options, open);
  require(whole == read_all(text, piece, options, open));
  options.bad_records = BadRecordPolicy::error;
  const ReadResult strict = read_all(text, piece, options, open);
  require(strict.num_skipped == 0 && whole.records.starts_with(strict.records));
  if (whole.num_skipped == 0) {
    require(strict == whole);
  } else {
    require(!strict.error.empty());
  }
}

}  // namespace gradmill::fuzz
