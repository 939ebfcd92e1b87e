// SPDX-License-Identifier: Apache-2.0
// Plain text as records with one field, named as the first field that is asked for, or "text".
#pragma once

#include <memory>

#include "data/records/bad_records.h"
#include "data/records/byte_source.h"
#include "data/records/record.h"

namespace gradmill {

// With options.text_lines every line that is not empty is a record. Without, the file is one document in records of at
// most 64 KiB, or the limit on records where that is less; each but the last `continues`. They end behind a line's end
// where there is one, else behind a space, else between two characters, so that a tokenizer is disturbed as little as
// can be. Bytes that are not UTF-8 make their record a bad one. `bad` must outlive the reader.
std::unique_ptr<RecordReader> open_text(std::unique_ptr<ByteSource> source, const ReadOptions& options,
                                        BadRecords& bad);

}  // namespace gradmill
