// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text before the model sees it: `<|endoftext|>` and its like.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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
};

// A part of a text: an added token, or what lies between two.
struct TextPart {
  TokenSpan span;
  std::optional<TokenId> id;
};

class AddedTokens {
 public:
  // Ids and contents must each be unique, contents not empty.
  AddedTokens(std::vector<AddedToken> tokens, bool nfc);

  // Cuts the text at the tokens of one kind; of several that begin at one place the longest is taken.
  std::vector<TextPart> split(std::string_view text, bool normalized, bool parse_special) const;
  const AddedToken* find(TokenId id) const;
  std::optional<TokenId> id(std::string_view content) const;
  TokenId largest_id() const;  // -1 where there are none

 private:
  // Contents as a tree of bytes.
  struct Node {
    std::map<unsigned char, size_t> next;
    const AddedToken* token = nullptr;
  };
  struct Match {
    const AddedToken* token = nullptr;
    size_t end = 0;
  };
  using Tree = std::vector<Node>;

  static void insert(Tree& tree, std::string_view content, const AddedToken& token);
  static Match match(const Tree& tree, std::string_view text, size_t begin);

  std::vector<AddedToken> tokens_;
  std::unordered_map<TokenId, size_t> by_id_;
  std::unordered_map<std::string, TokenId> by_content_;
  Tree raw_, normalized_;
};

}  // namespace gradmill
