// SPDX-License-Identifier: Apache-2.0
// How the ids of one text or of a pair become what a model reads: the tokens around them, their types, and what is cut.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tokenizer/token_id.h"

namespace gradmill {

struct Truncation {
  enum class Strategy : uint8_t { longest_first, only_first, only_second };
  int64_t max_length = 0;  // of the whole sequence, added tokens included; 0: nothing is cut
  Strategy strategy = Strategy::longest_first;
  bool left = false;  // cut the beginning, not the end
};

struct Sequence {
  std::vector<TokenId> ids;
  std::vector<int32_t> type_ids;
  std::vector<uint8_t> special;  // 1: added by the template
};

// The tokens around the texts, and their types. A template for one text never names a second.
class SequenceTemplate {
 public:
  struct Piece {
    enum class Kind : uint8_t { first, second, token } kind = Kind::first;
    int32_t type_id = 0;
    TokenId id = 0;  // of a token
    bool operator==(const Piece&) const = default;
  };

  // The ids alone; of a pair one behind the other, the second with type 1.
  SequenceTemplate();
  SequenceTemplate(std::vector<Piece> single, std::vector<Piece> pair);
  // [CLS] first [SEP], and [CLS] first [SEP] second [SEP] with types 0 and 1.
  static SequenceTemplate bert(TokenId cls, TokenId sep);

  // Both throw a usage_error where the strategy cannot reach max_length.
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
