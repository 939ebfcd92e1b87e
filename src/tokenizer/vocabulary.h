// SPDX-License-Identifier: Apache-2.0
// The tokens of a vocabulary: their ids, and the bytes that they stand for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace gradmill {

enum class Spelling { plain, byte_level };

// Byte-level tokens are stored as bytes, not as their spelling, so that encoding and decoding need not map characters.
// A token that is not a valid spelling (`<|end of text|>` with its spaces, "日本") is stored unchanged and stands for
// itself.
class Vocabulary {
 public:
  // `largest_id` is the limit for ids passed to add().
  explicit Vocabulary(TokenId largest_id, Spelling spelling = Spelling::byte_level)
      : spelling_(spelling), entries_(static_cast<size_t>(largest_id) + 1) {}

  // Returns false if the id or the token is already taken.
  bool add(TokenId id, std::string_view token);

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  bool has(TokenId id) const { return id >= 0 && id < size() && entries_[static_cast<size_t>(id)].used; }
  std::optional<std::string> token(TokenId id) const;
  std::optional<TokenId> id(std::string_view token) const;
  // Requires has(id).
  const std::string& bytes(TokenId id) const { return entries_[static_cast<size_t>(id)].bytes; }
  bool is_literal(TokenId id) const { return entries_[static_cast<size_t>(id)].literal; }
  // The token that stands for these bytes.
  std::optional<TokenId> id_of_bytes(std::string_view bytes) const;

 private:
  struct Entry {
    std::string bytes;
    bool used = false;
    bool literal = false;
  };
  using Index = std::unordered_map<std::string_view, TokenId>;  // views point into entries_, which is never moved

  Spelling spelling_;
  std::vector<Entry> entries_;
  Index spelt_, literal_;
};

}  // namespace gradmill
