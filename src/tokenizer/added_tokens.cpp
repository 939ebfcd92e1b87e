// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

// Where the character that ends at `end` begins.
size_t previous_char(std::string_view text, size_t end) {
  for (size_t length = std::min<size_t>(4, end); length > 1; --length) {
    if (read_utf8(text, end - length).num_bytes == length) return end - length;
  }
  return end - 1;
}

bool is_word_before(std::string_view text, size_t position) {
  return position > 0 && is_word_char(read_utf8(text, previous_char(text, position)).value);
}

bool is_word_after(std::string_view text, size_t position) {
  return position < text.size() && is_word_char(read_utf8(text, position).value);
}

size_t strip_left(std::string_view text, size_t position, size_t limit) {
  while (position > limit) {
    const size_t before = previous_char(text, position);
    if (before < limit || char_class(read_utf8(text, before).value) != CharClass::space) break;
    position = before;
  }
  return position;
}

size_t strip_right(std::string_view text, size_t position) {
  while (position < text.size()) {
    const Utf8Char c = read_utf8(text, position);
    if (char_class(c.value) != CharClass::space) break;
    position += c.num_bytes;
  }
  return position;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const std::function<std::string(std::string_view)>& normalize)
    : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    AddedToken& token = tokens_[i];
    by_id_.emplace(token.id, i);
    by_content_.emplace(token.content, token.id);
    token.decoded = token.normalized ? normalize(token.content) : token.content;
    if (!token.decoded.empty()) (token.normalized ? normalized_ : raw_).insert(token.decoded, i);
  }
}

void AddedTokens::Finder::insert(std::string_view content, size_t index) {
  trie.insert(content, static_cast<TokenId>(index));
  bool& known = is_first[static_cast<unsigned char>(content[0])];
  if (!known) first += content[0];
  known = true;
}

size_t AddedTokens::Finder::candidate(std::string_view text, size_t begin) const {
  if (first.size() <= 1) return first.empty() ? text.size() : std::min(text.find(first[0], begin), text.size());
  while (begin < text.size() && !is_first[static_cast<unsigned char>(text[begin])]) ++begin;
  return begin;
}

AddedTokens::Match AddedTokens::match(const Finder& finder, std::string_view text, size_t begin) const {
  Match longest;
  TokenTrie::Node node = TokenTrie::kRoot;
  for (size_t i = begin; i < text.size(); ++i) {
    node = finder.trie.next(node, text[i]);
    if (node == TokenTrie::kNone) break;
    if (const TokenId index = finder.trie.token(node); index >= 0)
      longest = {&tokens_[static_cast<size_t>(index)], i + 1};
  }
  return longest;
}

std::vector<TextPart> AddedTokens::split(std::string_view text, bool normalized, bool parse_special) const {
  const Finder& finder = normalized ? normalized_ : raw_;
  std::vector<TextPart> parts;
  size_t done = 0;
  for (size_t i = finder.candidate(text, 0); i < text.size(); i = finder.candidate(text, i)) {
    const Match found = match(finder, text, i);
    if (found.token == nullptr) {
      ++i;
      continue;
    }
    const AddedToken& token = *found.token;
    size_t begin = i, end = found.end;
    i = end;  // a rejected match is skipped as a whole
    if (token.special && !parse_special) continue;
    if (token.single_word && (is_word_before(text, begin) || is_word_after(text, end))) continue;
    if (token.lstrip) begin = strip_left(text, begin, done);
    if (token.rstrip) end = strip_right(text, end);
    if (done < begin) parts.push_back({{done, begin}, std::nullopt});
    parts.push_back({{begin, end}, token.id});
    done = i = end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, std::nullopt});
  return parts;
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

std::optional<TokenId> AddedTokens::id(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? std::nullopt : std::optional(found->second);
}

TokenId AddedTokens::largest_id() const {
  TokenId largest = -1;
  for (const AddedToken& token : tokens_) largest = std::max(largest, token.id);
  return largest;
}

}  // namespace gradmill
