// SPDX-License-Identifier: Apache-2.0
#include "data/records/csv_reader.h"

#include <simdjson.h>

#include <algorithm>

namespace gradmill {

CsvReader::CsvReader(std::unique_ptr<ByteSource> source, CsvDialect dialect, const ReadOptions& options,
                     BadRecords& bad)
    : lines_(std::move(source), options.max_record_bytes),
      dialect_(dialect),
      max_bytes_(options.max_record_bytes),
      bad_(bad),
      num_columns_(kMaxRecordFields) {
  read_header(options.fields);
}

bool CsvReader::next(Record& record) {
  while (read_row()) {
    if (const std::optional<Problem> problem = row_problem()) {
      bad_.report(problem->kind, lines_.path(), row_line_, problem->what);
      continue;
    }
    record.clear();
    record.file = lines_.path().native();
    record.line = row_line_;
    for (size_t column = 0; column < num_columns_; ++column) {
      if (!names_[column].empty()) record.add(names_[column]).value.swap(cells_[column]);
    }
    return true;
  }
  return false;
}

void CsvReader::read_header(const std::vector<FieldRequest>& fields) {
  if (!read_row()) {
    num_columns_ = 0;
    return;
  }
  constexpr std::string_view kFix = "the first line must name the columns";
  if (problem_) throw lost(row_line_, problem_->what, kFix);
  if (num_cells_ > kMaxRecordFields) throw lost(row_line_, fmt::format("{} columns", num_cells_), kFix);
  num_columns_ = num_cells_;
  names_.assign(cells_.begin(), cells_.begin() + static_cast<ptrdiff_t>(num_columns_));
  std::string shown;
  for (size_t i = 0; i < num_columns_; ++i) {
    if (!names_[i].empty() && std::find(names_.begin(), names_.begin() + i, names_[i]) != names_.begin() + i) {
      throw lost(row_line_, fmt::format("two columns are named {}", shown_name(names_[i])), "rename one of them");
    }
    if (i < 20) shown += (i == 0 ? "" : ", ") + shown_name(names_[i]);
  }
  for (const FieldRequest& field : fields) {
    if (field.required && std::ranges::find(names_, field.name) == names_.end()) {
      throw lost(row_line_, fmt::format("no column '{}'", field.name), "the columns are " + shown);
    }
  }
  for (std::string& name : names_) {
    const auto is_name = [&](const FieldRequest& field) { return field.name == name; };
    if (!fields.empty() && std::ranges::none_of(fields, is_name)) name.clear();
  }
}

// Returns false at the end of the file.
bool CsvReader::read_row() {
  num_cells_ = 0;
  problem_.reset();
  do {
    row_line_ = row_bytes_ = 0;
    if (!next_line()) return false;
  } while (line_.text.empty() && !line_.too_long);
  row_line_ = line_.number;
  read_cells();
  return true;
}

void CsvReader::read_cells() {
  std::string_view rest = line_.text;
  for (;;) {
    std::string* const cell = begin_cell();
    if (dialect_.quotes && rest.starts_with('"')) {
      rest.remove_prefix(1);
      read_quoted(rest, cell);
      const size_t surplus = std::min(rest.find(dialect_.delimiter), rest.size());
      if (surplus > 0) problem_ = Problem{BadRecord::malformed, "text after a closing quote"};
      rest.remove_prefix(surplus);
    } else {
      const std::string_view text = rest.substr(0, rest.find(dialect_.delimiter));
      if (cell != nullptr) cell->assign(text);
      rest.remove_prefix(text.size());
    }
    if (rest.empty()) return;
    rest.remove_prefix(1);
  }
}

// Reads from after the opening quote to after the closing one, which may be on a later line; `rest` then belongs to
// that line.
void CsvReader::read_quoted(std::string_view& rest, std::string* cell) {
  const int64_t first_line = line_.number;
  for (;;) {
    const size_t quote = std::min(rest.find('"'), rest.size());
    if (cell != nullptr) cell->append(rest.substr(0, quote));
    rest.remove_prefix(quote);
    if (rest.empty()) {
      if (cell != nullptr) cell->append(line_.ending);
      if (!next_line())
        throw lost(first_line, "a quote is opened and never closed", "close it, or double it inside a field");
      rest = line_.text;
      continue;
    }
    rest.remove_prefix(1);
    if (!rest.starts_with('"')) return;
    rest.remove_prefix(1);
    if (cell != nullptr) cell->push_back('"');
  }
}

// Returns null for a cell after the last column, which is only counted.
std::string* CsvReader::begin_cell() {
  if (++num_cells_ > num_columns_) return nullptr;
  if (num_cells_ > cells_.size()) cells_.emplace_back();
  cells_[num_cells_ - 1].clear();
  return &cells_[num_cells_ - 1];
}

bool CsvReader::next_line() {
  if (!lines_.next(line_)) return false;
  row_bytes_ += std::ssize(line_.text) + std::ssize(line_.ending);
  const auto too_long = [&] { return fmt::format("longer than {} bytes", max_bytes_); };
  if (dialect_.quotes && (line_.too_long || row_bytes_ > max_bytes_ + 2)) {
    throw lost(row_line_ > 0 ? row_line_ : line_.number, "a record " + too_long(),
               "look for a quote that is not closed, or raise the limit");
  }
  if (line_.too_long) problem_ = Problem{BadRecord::too_long, too_long()};
  if (!simdjson::validate_utf8(line_.text.data(), line_.text.size())) {
    const std::string place = row_line_ > 0 ? fmt::format(" (on line {})", line_.number) : "";
    problem_ = Problem{BadRecord::not_utf8, "not valid UTF-8" + place};
  }
  return true;
}

std::optional<CsvReader::Problem> CsvReader::row_problem() const {
  if (problem_ || num_cells_ == num_columns_) return problem_;
  return Problem{BadRecord::malformed, fmt::format("{} columns, but the header has {}", num_cells_, num_columns_)};
}

Error CsvReader::lost(int64_t line, std::string_view what, std::string_view fix) const {
  return data_error(fmt::format("'{}' line {}: {}", lines_.path().string(), line, what), fix);
}

}  // namespace gradmill
