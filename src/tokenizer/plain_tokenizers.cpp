// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/plain_tokenizers.h"

#include <set>

#include "core/error.h"
#include "files/strict_json.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

void check_id(TokenId id, int64_t vocab_size) {
  if (id >= 0 && id < vocab_size) return;
  throw data_error(fmt::format("token id {} is not in the vocabulary of {} ids", id, vocab_size),
                   "use the tokenizer that made the ids");
}

}  // namespace

Encoding ByteTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  Encoding result;
  result.ids.reserve(text.size());
  for (const char byte : text) result.ids.push_back(static_cast<unsigned char>(byte));
  for (size_t i = 0; options.offsets && i < text.size(); ++i) result.offsets.push_back({i, i + 1});
  return result;
}

std::string ByteTokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  std::string text;
  text.reserve(ids.size());
  for (const TokenId id : ids) {
    check_id(id, vocab_size());
    text += static_cast<char>(id);
  }
  return options.replace_invalid ? replace_invalid_utf8(text) : text;
}

std::optional<std::string> ByteTokenizer::token(TokenId id) const {
  if (id < 0 || id >= vocab_size()) return std::nullopt;
  const char byte = static_cast<char>(id);
  return spell_bytes({&byte, 1});
}

std::optional<TokenId> ByteTokenizer::id(std::string_view token) const {
  const auto bytes = unspell_bytes(token);
  if (!bytes || bytes->size() != 1) return std::nullopt;
  return static_cast<unsigned char>((*bytes)[0]);
}

CharTokenizer::CharTokenizer(std::string_view text) {
  std::set<char32_t> points;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = read_utf8(text, i);
    if (c.value == kInvalidByte) {
      throw data_error(fmt::format("the text for a vocabulary is not UTF-8 at byte {}", i), "convert it to UTF-8");
    }
    points.insert(c.value);
    i += c.num_bytes;
  }
  if (points.empty()) throw data_error("the text for a vocabulary is empty", "give it some text");
  for (const char32_t point : points) {
    ids_.emplace(point, static_cast<TokenId>(characters_.size()));
    append_code_point(characters_.emplace_back(), point);
  }
}

Encoding CharTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  Encoding result;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = read_utf8(text, i);
    const auto found = ids_.find(c.value);
    if (found == ids_.end()) {
      throw data_error(fmt::format("the character {} at byte {} is not in the vocabulary",
                                   quote_for_message(text.substr(i, c.num_bytes)), i),
                       "make the vocabulary from all of the text");
    }
    result.ids.push_back(found->second);
    if (options.offsets) result.offsets.push_back({i, i + c.num_bytes});
    i += c.num_bytes;
  }
  return result;
}

std::string CharTokenizer::decode(std::span<const TokenId> ids, const DecodeOptions&) const {
  std::string text;
  for (const TokenId id : ids) {
    check_id(id, vocab_size());
    text += characters_[static_cast<size_t>(id)];
  }
  return text;
}

std::optional<std::string> CharTokenizer::token(TokenId id) const {
  if (id < 0 || id >= vocab_size()) return std::nullopt;
  return characters_[static_cast<size_t>(id)];
}

std::optional<TokenId> CharTokenizer::id(std::string_view token) const {
  if (token.empty() || read_utf8(token, 0).num_bytes != token.size()) return std::nullopt;
  const auto found = ids_.find(read_utf8(token, 0).value);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace gradmill
