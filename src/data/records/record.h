// SPDX-License-Identifier: Apache-2.0
// Record: one example as stored in a data file. Also the interface of the readers of such files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gradmill {

// More fields than any data set has. It limits the work that is done for every pair of fields.
inline constexpr size_t kMaxRecordFields = 1024;

struct RecordField {
  std::string name;
  std::string value;     // valid UTF-8
  bool is_json = false;  // the value is JSON text of a number, true, false, list or object; false: plain text
};

// Reused for all records of a file, so that fields keep their memory.
class Record {
 public:
  std::string file;
  int64_t line = 0;        // line where it begins, counted from 1
  bool continues = false;  // the next record continues this text: both are parts of one document

  std::span<const RecordField> fields() const { return {fields_.data(), num_fields_}; }
  // Null if the field is missing or null.
  const RecordField* find(std::string_view name) const {
    for (const RecordField& field : fields()) {
      if (field.name == name) return &field;
    }
    return nullptr;
  }

  void clear() {
    num_fields_ = 0;
    continues = false;
  }
  RecordField& add(std::string_view name) {
    if (num_fields_ == fields_.size()) fields_.emplace_back();
    RecordField& field = fields_[num_fields_++];
    field.name = name;
    field.value.clear();
    field.is_json = false;
    return field;
  }
  // Removes the field, if it exists; the last field takes its place.
  void erase(std::string_view name) {
    for (size_t i = 0; i < num_fields_; ++i) {
      if (fields_[i].name != name) continue;
      std::swap(fields_[i], fields_[--num_fields_]);
      return;
    }
  }

 private:
  std::vector<RecordField> fields_;
  size_t num_fields_ = 0;
};

struct FieldRequest {
  std::string name;
  bool required = true;  // a record in which it is missing or null is bad
};

// What to do with a bad record: too long, not UTF-8, not JSON, wrong columns, or a required field missing.
enum class BadRecordPolicy { error, skip };

struct ReadOptions {
  std::vector<FieldRequest> fields = {};  // fields to keep, in any order; empty: all
  BadRecordPolicy bad_records = BadRecordPolicy::error;
  int64_t max_record_bytes = int64_t{16} << 20;  // memory use is about eight times the longest record below this limit
  bool text_lines = false;  // each line of a text file is a record; false: the whole file is one document, returned in
                            // parts
  bool tsv_quotes = false;  // TSV as written by spreadsheets and pandas; false: quotes are ordinary characters
};

class RecordReader {
 public:
  virtual ~RecordReader() = default;
  // Returns false at the end. Throws a data_error that names file and line.
  virtual bool next(Record& record) = 0;
};

}  // namespace gradmill
