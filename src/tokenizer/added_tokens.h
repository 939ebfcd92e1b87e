// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text before the model sees it, such as `<|endoftext|>`.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/token_trie.h"
#include "tokenizer/tokenizer.h"

namespace gradmill {

struct AddedToken {
  TokenId id = -1;
  std::string content;
  bool special = false;
  bool single_word = false;  // matches only if no word character is next to it
  bool lstrip = false;       // also takes the white space before it
  bool rstrip = false;
  bool normalized = false;  // searched for in the normalised text
  std::string decoded;      // the text it decodes to: its content, normalised if it is searched for in normalised text
};

// A part of a text: an added token, or the text between two of them.
struct TextPart {
  TokenSpan span;
  std::optional<TokenId> id;
};

class AddedTokens {
 public:
  // Ids and contents must be unique, and contents must not be empty.
  AddedTokens(std::vector<AddedToken> tokens, const std::function<std::string(std::string_view)>& normalize);

  // Cuts the text at the tokens of one kind. If several begin at the same position, the longest wins.
  std::vector<TextPart> split(std::string_view text, bool normalized, bool parse_special) const;
  // Whether there are tokens of this kind.
  bool has(bool normalized) const { return !(normalized ? normalized_ : raw_).first.empty(); }
  const AddedToken* find(TokenId id) const;
  std::optional<TokenId> id(std::string_view content) const;
  TokenId largest_id() const;  // -1 if there are no tokens

 private:
  // The contents of the tokens of one kind; values are indices into tokens_.
  struct Finder {
    TokenTrie trie;
    std::array<bool, 256> is_first{};  // the first bytes of the contents
    std::string first;                 // the same, as a list

    void insert(std::string_view content, size_t index);
    // The next position, from `begin`, where a content may begin.
    size_t candidate(std::string_view text, size_t begin) const;
  };
  struct Match {
    const AddedToken* token = nullptr;
    size_t end = 0;
  };
  Match match(const Finder& finder, std::string_view text, size_t begin) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<TokenId, size_t> by_id_;
  std::unordered_map<std::string, TokenId> by_content_;
  Finder raw_, normalized_;
};

}  // namespace gradmill
