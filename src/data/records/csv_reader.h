// SPDX-License-Identifier: Apache-2.0
// CsvReader: reads tables with a header line, separated by commas or tabs. Empty lines are skipped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "data/records/bad_records.h"
#include "data/records/line_reader.h"
#include "data/records/record.h"

namespace gradmill {

struct CsvDialect {
  char delimiter = ',';
  // True as in RFC 4180: a field in quotes may contain delimiters, line ends and doubled quotes. False: quotes are
  // ordinary characters, as in the TSV files of GLUE.
  bool quotes = true;
};

// Every record must have as many fields as the header; a column without a name is dropped. A quote that is never closed
// is an error under any policy, and so is a record that is too long if fields may be quoted, because the start of the
// next record is then unknown. An invalid header is an error as well.
class CsvReader : public RecordReader {
 public:
  // Reads the header. `bad` must outlive the reader.
  CsvReader(std::unique_ptr<ByteSource> source, CsvDialect dialect, const ReadOptions& options, BadRecords& bad);

  bool next(Record& record) override;

 private:
  struct Problem {
    BadRecord kind;
    std::string what;
  };

  void read_header(const std::vector<FieldRequest>& fields);
  bool read_row();
  void read_cells();
  void read_quoted(std::string_view& rest, std::string* cell);
  bool next_line();
  std::string* begin_cell();
  std::optional<Problem> row_problem() const;
  Error lost(int64_t line, std::string_view what, std::string_view fix) const;

  LineReader lines_;
  CsvDialect dialect_;
  int64_t max_bytes_;
  BadRecords& bad_;
  std::vector<std::string> names_;  // names of the columns; empty: dropped
  size_t num_columns_;

  // The row that is being read.
  TextLine line_;
  int64_t row_line_ = 0;  // number of its first line; 0 until it is read
  int64_t row_bytes_ = 0;
  std::vector<std::string> cells_;  // at most the first num_columns_
  size_t num_cells_ = 0;
  std::optional<Problem> problem_;
};

}  // namespace gradmill
