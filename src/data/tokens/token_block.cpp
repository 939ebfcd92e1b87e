// SPDX-License-Identifier: Apache-2.0
#include "data/tokens/token_block.h"

#include "core/error.h"

namespace gradmill {
namespace {

void append(TokenBlock& block, const TokenDocument& document, bool with_learned) {
  block.tokens.insert(block.tokens.end(), document.ids.begin(), document.ids.end());
  if (!with_learned) return;
  block.learned.insert(block.learned.end(), document.learned.begin(), document.learned.end());
  block.learned.resize(block.tokens.size(), 1);
}

}  // namespace

std::span<const uint8_t> TokenBlock::learned_of(int64_t begin, int64_t end) const {
  if (learned.empty()) return {};
  return std::span(learned).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

int64_t TokenBlock::num_bytes() const {
  return static_cast<int64_t>(tokens.capacity() * sizeof(TokenId) + learned.capacity() +
                              ends.capacity() * sizeof(int64_t));
}

TokenBlock encode_block(const RecordBlock& block, const RecordEncoding& encoding, const ReadOptions& options) {
  TokenBlock result;
  result.place = block.place;
  result.ends_unit = block.ends_unit;
  result.bad = bad_records_of(block, options.bad_records);
  result.tokens.reserve(block.lines.size() / 4);  // typical for English
  TokenDocument document;
  const auto end_document = [&] {
    if (result.has_open_document()) result.ends.push_back(std::ssize(result.tokens));
  };
  for_each_record(block, options, result.bad, [&](const Record& record) {
    try {
      encoding.encode(record, document);
    } catch (const Error& error) {
      result.bad.report(BadRecord::not_encodable, record.file, record.line, error.what());
      return;
    }
    append(result, document, encoding.has_learned);
    ++result.num_records;
    for (const RecordField& field : record.fields()) result.num_text_bytes += std::ssize(field.value);
    if (!record.continues) end_document();
  });
  if (block.ends_unit) end_document();  // the last part of a text may have been skipped
  return result;
}

}  // namespace gradmill
