// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/vocabulary.h"

#include "tokenizer/byte_level.h"

namespace gradmill {
namespace {

std::optional<TokenId> find(const std::unordered_map<std::string_view, TokenId>& index, std::string_view key) {
  const auto found = index.find(key);
  return found == index.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

bool Vocabulary::add(TokenId id, std::string_view token) {
  Entry& entry = entries_[static_cast<size_t>(id)];
  auto bytes = spelling_ == Spelling::plain ? std::optional<std::string>(token) : unspell_bytes(token);
  const bool literal = !bytes;
  Index& index = literal ? literal_ : spelt_;
  if (literal) bytes = token;
  if (entry.used || index.contains(*bytes)) return false;
  entry = {std::move(*bytes), true, literal};
  index.emplace(entry.bytes, id);
  return true;
}

std::optional<std::string> Vocabulary::token(TokenId id) const {
  if (!has(id)) return std::nullopt;
  return is_literal(id) || spelling_ == Spelling::plain ? bytes(id) : spell_bytes(bytes(id));
}

std::optional<TokenId> Vocabulary::id(std::string_view token) const {
  if (spelling_ == Spelling::plain) return find(spelt_, token);
  const auto bytes = unspell_bytes(token);
  return bytes ? find(spelt_, *bytes) : find(literal_, token);
}

std::optional<TokenId> Vocabulary::id_of_bytes(std::string_view bytes) const { return find(spelt_, bytes); }

}  // namespace gradmill
