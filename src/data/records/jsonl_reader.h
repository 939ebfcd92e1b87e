// SPDX-License-Identifier: Apache-2.0
// JsonlReader: a JSON object on every line. Empty lines are passed over.
#pragma once

#include <memory>

#include "data/records/bad_records.h"
#include "data/records/byte_source.h"
#include "data/records/record.h"

namespace gradmill {

// Strings become plain text, all other values their JSON text as it stands in the file; null counts as no field. Of a
// name that occurs twice the last value counts. Lines are checked as a whole, also the fields that are not kept; a line
// may nest 64 deep and have kMaxRecordFields fields.
class JsonlReader : public RecordReader {
 public:
  // `bad` must outlive the reader.
  JsonlReader(std::unique_ptr<ByteSource> source, const ReadOptions& options, BadRecords& bad);
  ~JsonlReader() override;

  bool next(Record& record) override;

 private:
  struct State;  // keeps the JSON library out of the header
  std::unique_ptr<State> state_;
};

}  // namespace gradmill
