// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/word_piece.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "files/strict_json.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

bool is_char_begin(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)), continuation_(TokenTrie::kRoot) {
  for (TokenId id = 0; id < vocabulary_.size(); ++id) {
    if (vocabulary_.has(id)) trie_.insert(vocabulary_.bytes(id), id);
  }
  for (const char letter : options_.prefix) {
    if (continuation_ != TokenTrie::kNone) continuation_ = trie_.next(continuation_, letter);
  }
}

void WordPiece::encode_word(std::string_view word, std::vector<WordToken>& tokens) const {
  const auto num_chars = static_cast<size_t>(std::ranges::count_if(word, is_char_begin));
  const size_t begin = tokens.size();
  if (num_chars <= options_.max_chars && split(word, tokens)) return;
  tokens.resize(begin);
  if (options_.unknown < 0) {
    throw data_error(fmt::format("the word {} has no tokens in this vocabulary, nor has it an unknown token",
                                 quote_for_message(word)),
                     "use another vocabulary or take the word out of the text");
  }
  tokens.push_back({options_.unknown, static_cast<uint32_t>(word.size())});
}

bool WordPiece::split(std::string_view word, std::vector<WordToken>& tokens) const {
  for (size_t begin = 0; begin < word.size();) {
    TokenTrie::Node node = begin == 0 ? TokenTrie::kRoot : continuation_;
    WordToken longest{-1, 0};
    for (size_t i = begin; i < word.size() && node != TokenTrie::kNone; ++i) {
      node = trie_.next(node, word[i]);
      if (node == TokenTrie::kNone) break;
      const bool whole_chars = i + 1 == word.size() || is_char_begin(word[i + 1]);
      if (whole_chars && trie_.token(node) >= 0) longest = {trie_.token(node), static_cast<uint32_t>(i + 1 - begin)};
    }
    if (longest.num_bytes == 0) return false;
    tokens.push_back(longest);
    begin += longest.num_bytes;
  }
  return true;
}

}  // namespace gradmill
