// SPDX-License-Identifier: Apache-2.0
// Record: one example of a data set as it stands in a file, and the interface of those who read such files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gradmill {

// More fields than any data set has; a bound for what is done for every pair of them.
inline constexpr size_t kMaxRecordFields = 1024;

struct RecordField {
  std::string name;
  std::string value;     // valid UTF-8
  bool is_json = false;  // the value is JSON text of a number, true, false, a list or an object; otherwise plain text
};

// Reused from one record to the next, so that fields keep their memory.
class Record {
 public:
  std::string file;
  int64_t line = 0;        // where it begins, counted from 1
  bool continues = false;  // the next record goes on with the same text: a part of a file that is one document

  std::span<const RecordField> fields() const { return {fields_.data(), num_fields_}; }
  // Nothing where the record has no such field, or null in it.
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
  // Takes the field out, if there is one; the last field takes its place.
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
  bool required = true;  // a record without it, or with null in it, is a bad record
};

// A bad record: too long, not UTF-8, not JSON, with the wrong columns, without a required field.
enum class BadRecordPolicy { error, skip };

struct ReadOptions {
  std::vector<FieldRequest> fields = {};  // what records keep, in this order or another; none: everything
  BadRecordPolicy bad_records = BadRecordPolicy::error;
  int64_t max_record_bytes = int64_t{16} << 20;  // memory is about eight times the longest record below this
  bool text_lines = false;  // of a text file every line is a record; without, the file is one, given in parts
  bool tsv_quotes = false;  // TSV as spreadsheets and pandas write it; without, quotes are characters like others
};

class RecordReader {
 public:
  virtual ~RecordReader() = default;
  // False at the end. Throws a data_error that names file and line.
  virtual bool next(Record& record) = 0;
};

}  // namespace gradmill
