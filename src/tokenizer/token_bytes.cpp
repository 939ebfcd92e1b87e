// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/token_bytes.h"

#include <algorithm>

namespace gradmill {
namespace {

constexpr DecodeOptions kTextOnly{.skip_special = true};

bool shows(char c) { return c > ' ' && c < 0x7f; }

}  // namespace

TokenBytes::TokenBytes(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), known_(static_cast<size_t>(tokenizer.vocab_size()), -1) {
  for (TokenId id = 0; id < tokenizer.vocab_size() && around_.empty(); ++id) {
    if (!tokenizer.token(id)) continue;
    const std::string text = tokenizer.decode({&id, 1}, kTextOnly);
    if (!text.empty() && std::ranges::all_of(text, shows)) around_ = {id};
  }
}

int64_t TokenBytes::of(TokenId id) {
  if (id < 0 || id >= std::ssize(known_)) return 0;
  int32_t& bytes = known_[static_cast<size_t>(id)];
  if (bytes < 0) bytes = static_cast<int32_t>(measure(id));
  return bytes;
}

int64_t TokenBytes::measure(TokenId id) const {
  if (!tokenizer_.token(id)) return 0;
  std::vector<TokenId> ids = around_;
  ids.insert(ids.end(), around_.begin(), around_.end());
  const auto without = std::ssize(tokenizer_.decode(ids, kTextOnly));
  ids.insert(ids.begin() + std::ssize(around_), id);
  return std::max<int64_t>(std::ssize(tokenizer_.decode(ids, kTextOnly)) - without, 0);
}

}  // namespace gradmill
