// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/char_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tokenizer/merge_tokens.h"
#include "tokenizer/unicode.h"

namespace gradmill {

std::array<TokenId, 256> find_byte_tokens(const Vocabulary& vocabulary) {
  std::array<TokenId, 256> ids;
  for (unsigned byte = 0; byte < 256; ++byte) ids[byte] = vocabulary.id(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  return ids;
}

// Splits a word into its tokens before any merge.
class CharBpe::Splitter {
 public:
  Splitter(const CharBpe& bpe, std::vector<WordToken>& tokens) : bpe_(bpe), tokens_(tokens) {}

  void run(std::string_view word) {
    for (size_t i = 0; i < word.size();) {
      if (const WordToken whole = bpe_.find_whole(word.substr(i)); whole.num_bytes > 0) {
        add(whole);
        i += whole.num_bytes;
        continue;
      }
      const uint32_t length = read_utf8(word, i).num_bytes;
      add_char(word.substr(i, length), i == 0, i + length == word.size());
      i += length;
    }
    flush_unknown();
  }

 private:
  void add(WordToken token) {
    flush_unknown();
    token.num_bytes += std::exchange(num_left_out_, 0);
    tokens_.push_back(token);
  }

  void add_char(std::string_view letter, bool first, bool last) {
    const auto length = static_cast<uint32_t>(letter.size());
    const TokenId id = bpe_.char_token(letter, first, last);
    if (id >= 0) return add({id, length});
    if (bpe_.options_.byte_fallback && add_bytes(letter, first, last)) return;
    if (bpe_.options_.unknown < 0) {
      num_left_out_ += length;
      return;
    }
    if (!bpe_.options_.fuse_unknown) flush_unknown();
    num_unknown_ += length;
  }

  // An open unknown token is written after the bytes, as in Hugging Face's library.
  bool add_bytes(std::string_view letter, bool first, bool last) {
    std::string text;
    if (!first) text += bpe_.options_.prefix;
    text += letter;
    if (last) text += bpe_.options_.suffix;
    const auto id_of = [this](char byte) { return bpe_.byte_ids_[static_cast<unsigned char>(byte)]; };
    if (std::ranges::any_of(text, [&](char byte) { return id_of(byte) < 0; })) return false;
    for (const char byte : text) tokens_.push_back({id_of(byte), 1});
    return true;
  }

  void flush_unknown() {
    if (num_unknown_ > 0) tokens_.push_back({bpe_.options_.unknown, std::exchange(num_unknown_, 0)});
  }

  const CharBpe& bpe_;
  std::vector<WordToken>& tokens_;
  uint32_t num_unknown_ = 0;   // in bytes
  uint32_t num_left_out_ = 0;  // in bytes, which count as part of the next token
};

CharBpe::CharBpe(Vocabulary vocabulary, const std::vector<Merge>& merges, CharBpeOptions options)
    : vocabulary_(std::move(vocabulary)),
      merges_(merges),
      options_(std::move(options)),
      byte_ids_(find_byte_tokens(vocabulary_)) {
  for (const TokenId id : options_.whole) whole_.insert(vocabulary_.bytes(id), id);
}

TokenId CharBpe::char_token(std::string_view letter, bool first, bool last) const {
  const bool plain = (first || options_.prefix.empty()) && (!last || options_.suffix.empty());
  if (plain) return vocabulary_.id_of_bytes(letter).value_or(-1);
  std::string token;
  if (!first) token += options_.prefix;
  token += letter;
  if (last) token += options_.suffix;
  return vocabulary_.id_of_bytes(token).value_or(-1);
}

WordToken CharBpe::find_whole(std::string_view text) const {
  WordToken longest{-1, 0};
  if (options_.whole.empty()) return longest;
  TokenTrie::Node node = TokenTrie::kRoot;
  for (uint32_t i = 0; i < text.size(); ++i) {
    node = whole_.next(node, text[i]);
    if (node == TokenTrie::kNone) break;
    if (whole_.token(node) >= 0) longest = {whole_.token(node), i + 1};
  }
  return longest;
}

void CharBpe::encode_word(std::string_view word, std::vector<WordToken>& tokens) const {
  if (options_.ignore_merges) {
    if (const auto whole = vocabulary_.id_of_bytes(word)) {
      return tokens.push_back({*whole, static_cast<uint32_t>(word.size())});
    }
  }
  const size_t begin = tokens.size();
  Splitter(*this, tokens).run(word);
  merge_tokens(merges_, tokens, begin);
}

}  // namespace gradmill
