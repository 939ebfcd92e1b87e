// SPDX-License-Identifier: Apache-2.0
// Fuzz target: tokenizer.json or, if the input does not begin like JSON, a SentencePiece model. Loads it and, if it is
// valid, encodes and decodes a text with it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "core/error.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/tokenizer_file.h"

namespace {

using namespace gradmill;

constexpr std::string_view kText =
    "Hello, w\u00f6rld! don't\t 12345 \u65e5\u672c\u8a9e e\u0301 \xff\xc3 <s>[MASK] \ufb01 ab ba\n\n  "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

void check(bool holds) {
  if (!holds) std::abort();
}

void use(const Tokenizer& tokenizer) {
  const Encoding plain = tokenizer.encode(kText);
  const Encoding placed = tokenizer.encode(kText, {.parse_special = false, .offsets = true});
  check(placed.ids.size() == placed.offsets.size());
  for (const TokenSpan& span : placed.offsets) check(span.begin <= span.end && span.end <= kText.size());
  for (const TokenId id : plain.ids) check(id >= 0 && id < tokenizer.vocab_size() && tokenizer.token(id));
  tokenizer.decode(plain.ids);
  tokenizer.decode(plain.ids, {.skip_special = true, .replace_invalid = true});
  tokenizer.sequence_template().build(plain.ids, placed.ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    use(bytes.starts_with('{') ? *parse_tokenizer_json(bytes, "input") : *make_sentencepiece(bytes, "input"));
  } catch (const Error&) {
  }
  return 0;
}
