// SPDX-License-Identifier: Apache-2.0
// TokenBlock: a block of records as tokens.
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
  std::vector<uint8_t> learned;  // one a token where the encoding has such, else empty
  std::vector<int64_t> ends;     // of the documents that end here; tokens behind the last are of one that goes on
  bool ends_unit = false;        // as RecordBlock's: nothing goes on behind it
  int64_t num_records = 0;
  int64_t num_text_bytes = 0;
  BadRecords bad{BadRecordPolicy::error};

  bool has_open_document() const { return std::ssize(tokens) > (ends.empty() ? 0 : ends.back()); }
  // The learned flags of tokens [begin, end); empty: all are.
  std::span<const uint8_t> learned_of(int64_t begin, int64_t end) const;
  int64_t num_bytes() const;  // in memory
};

// What cannot be tokenised is, by options.bad_records, a data_error or counted in `bad`. options.fields must be the
// encoding's.
TokenBlock encode_block(const RecordBlock& block, const RecordEncoding& encoding, const ReadOptions& options);

}  // namespace gradmill
