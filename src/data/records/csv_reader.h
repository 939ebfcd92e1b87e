// SPDX-License-Identifier: Apache-2.0
// CsvReader: tables with a header line, comma or tab separated. Empty lines are passed over.
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
  // As in RFC 4180: a field in quotes may hold delimiters, line ends and, doubled, quotes. Without, quotes are
  // characters like others, as in TSV files of GLUE.
  bool quotes = true;
};

// Every record must have as many fields as the header; a column without a name is not kept. A quote that is never
// closed, or a record that is too long where fields may be quoted, is an error under any policy: where the next record
// begins is not known then. So is a header that cannot be used.
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
  std::vector<std::string> names_;  // of the columns; empty: not kept
  size_t num_columns_;

  // The row that is being read.
  TextLine line_;
  int64_t row_line_ = 0;  // its first; 0 until that is read
  int64_t row_bytes_ = 0;
  std::vector<std::string> cells_;  // the first num_columns_ at most
  size_t num_cells_ = 0;
  std::optional<Problem> problem_;
};

}  // namespace gradmill
