// SPDX-License-Identifier: Apache-2.0
// Reads plain text as records with one field, named like the first requested field, or "text".
#pragma once

#include <memory>

#include "data/records/bad_records.h"
#include "data/records/byte_source.h"
#include "data/records/record.h"

namespace gradmill {

// With options.text_lines, every line that is not empty is a record. Otherwise the file is one document, in records of
// at most 64 KiB or the limit on records; all but the last have `continues` set. A part ends after a line end if
// possible, otherwise after a space, otherwise between two characters, to disturb a tokenizer as little as possible. A
// record with bytes that are not UTF-8 is bad. `bad` must outlive the reader.
std::unique_ptr<RecordReader> open_text(std::unique_ptr<ByteSource> source, const ReadOptions& options,
                                        BadRecords& bad);

}  // namespace gradmill
