// SPDX-License-Identifier: Apache-2.0
// Turns the ids of one text or a pair into the sequence that a model reads: adds tokens and types, and truncates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tokenizer/token_id.h"

namespace gradmill {

struct Truncation {
  enum class Strategy : uint8_t { longest_first, only_first, only_second };
  int64_t max_length = 0;  // length of the whole sequence including added tokens; 0: no truncation
  Strategy strategy = Strategy::longest_first;
  bool left = false;  // cut at the beginning instead of the end
};

struct Sequence {
  std::vector<TokenId> ids;
  std::vector<int32_t> type_ids;
  std::vector<uint8_t> special;  // 1: added by the template
};

// The tokens around the texts, and the types. A template for one text never refers to a second.
class SequenceTemplate {
 public:
  struct Piece {
    enum class Kind : uint8_t { first, second, token } kind = Kind::first;
    int32_t type_id = 0;
    TokenId id = 0;  // id of a token
    bool operator==(const Piece&) const = default;
  };

  // Adds no tokens. The texts of a pair are concatenated, and the second has type 1.
  SequenceTemplate();
  SequenceTemplate(std::vector<Piece> single, std::vector<Piece> pair);
  // [CLS] first [SEP] and [CLS] first [SEP] second [SEP], with types 0 and 1.
  static SequenceTemplate bert(TokenId cls, TokenId sep);

  // Both throw a usage_error if the strategy cannot reach max_length.
  Sequence build(std::span<const TokenId> first, const Truncation& truncation = {}) const;
  Sequence build(std::span<const TokenId> first, std::span<const TokenId> second,
                 const Truncation& truncation = {}) const;

  int64_t num_added(bool pair) const;
  std::span<const Piece> single() const { return single_; }
  std::span<const Piece> pair() const { return pair_; }

 private:
  std::vector<Piece> single_, pair_;
};

}  // namespace gradmill
