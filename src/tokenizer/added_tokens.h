// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text before the model sees it: `<|endoftext|>` and its like.
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
  bool single_word = false;  // only where no word character is next to it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;
  bool normalized = false;  // looked for in the normalised text
  std::string decoded;      // what it decodes to: its content, in the form in which it is looked for
};

// A part of a text: an added token, or what lies between two.
struct TextPart {
  TokenSpan span;
  std::optional<TokenId> id;
};

class AddedTokens {
 public:
  // Ids and contents must each be unique, contents not empty.
  AddedTokens(std::vector<AddedToken> tokens, const std::function<std::string(std::string_view)>& normalize);

  // Cuts the text at the tokens of one kind; of several that begin at one place the longest is taken.
  std::vector<TextPart> split(std::string_view text, bool normalized, bool parse_special) const;
  // Whether there are tokens of a kind.
  bool has(bool normalized) const { return !(normalized ? normalized_ : raw_).first.empty(); }
  const AddedToken* find(TokenId id) const;
  std::optional<TokenId> id(std::string_view content) const;
  TokenId largest_id() const;  // -1 where there are none

 private:
  // The contents of the tokens of one kind; values are places in tokens_.
  struct Finder {
    TokenTrie trie;
    std::array<bool, 256> is_first{};  // bytes that a content begins with
    std::string first;                 // the same, as a list

    void insert(std::string_view content, size_t index);
    // The next place, from `begin`, where a content may begin.
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
