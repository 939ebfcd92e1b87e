// SPDX-License-Identifier: Apache-2.0
// TokenBlock: a tokenised block of records.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/tokens/record_encoding.h"
#include "data/records/bad_records.h"
#include "data/records/record_blocks.h"

namespace gradmill {

struct TokenBlock {
  BlockPlace place;
  std::vector<TokenId> tokens;
  std::vector<uint8_t> learned;  // one per token if the encoding has such flags, otherwise empty
  std::vector<int64_t> ends;     // ends of the documents that end here; tokens after the last end belong to a document
                                 // that continues
  bool ends_unit = false;        // as in RecordBlock: no document continues after this block
  int64_t num_records = 0;
  int64_t num_text_bytes = 0;
  BadRecords bad{BadRecordPolicy::error};

  bool has_open_document() const { return std::ssize(tokens) > (ends.empty() ? 0 : ends.back()); }
  // The learned flags of tokens [begin, end); empty: all are learned.
  std::span<const uint8_t> learned_of(int64_t begin, int64_t end) const;
  int64_t num_bytes() const;  // in memory
};

// A record that cannot be tokenised is a data_error or is counted in `bad`, depending on options.bad_records.
// options.fields must be those of the encoding.
TokenBlock encode_block(const RecordBlock& block, const RecordEncoding& encoding, const ReadOptions& options);

}  // namespace gradmill
