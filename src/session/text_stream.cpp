// SPDX-License-Identifier: Apache-2.0
#include "session/text_stream.h"

#include <algorithm>

#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

// Tokens whose text was returned, but that are decoded again with the tokens after them: decoders look at one
// neighbour, not further.
constexpr size_t kContext = 4;

// The number of bytes at the end that begin an incomplete character.
size_t unfinished_bytes(std::string_view text) {
  for (size_t size = 1; size <= std::min<size_t>(3, text.size()); ++size) {
    const auto byte = static_cast<unsigned char>(text[text.size() - size]);
    if ((byte & 0xC0) == 0x80) continue;  // inside a character
    if (byte < 0xC2 || byte > 0xF4) return 0;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    const size_t begin = text.size() - size;
    // Bytes that can no longer be completed are not held back.
    return length > size && utf8_part_length(text, begin) == size ? size : 0;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const TokenId> prompt) : tokenizer_(tokenizer) {
  const auto last = prompt.last(std::min(prompt.size(), kContext));
  window_.assign(last.begin(), last.end());
  text_ = tokenizer_.decode(window_);
  done_ = text_.size();
}

std::string TextStream::take(size_t end) {
  if (end <= done_) return {};
  const std::string part = replace_invalid_utf8(std::string_view(text_).substr(done_, end - done_));
  done_ = end;
  return part;
}

std::string TextStream::add(TokenId token) {
  window_.push_back(token);
  text_ = tokenizer_.decode(window_);
  const size_t unfinished = unfinished_bytes(text_);
  const std::string part = take(text_.size() - unfinished);
  if (unfinished == 0 && window_.size() > 2 * kContext) {
    window_.erase(window_.begin(), window_.end() - static_cast<ptrdiff_t>(kContext));
    text_ = tokenizer_.decode(window_);
    done_ = text_.size();
  }
  return part;
}

std::string TextStream::finish() { return take(text_.size()); }

}  // namespace gradmill
