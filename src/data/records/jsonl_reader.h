// SPDX-License-Identifier: Apache-2.0
// JsonlReader: reads one JSON object per line. Empty lines are skipped.
#pragma once

#include <memory>

#include "data/records/bad_records.h"
#include "data/records/byte_source.h"
#include "data/records/record.h"

namespace gradmill {

// Strings become plain text. All other values keep their JSON text from the file; null means that the field is absent.
// If a name occurs twice, the last value counts. Lines are checked completely, including fields that are not requested.
// A line may be nested 64 deep and have kMaxRecordFields fields.
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
