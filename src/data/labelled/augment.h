// SPDX-License-Identifier: Apache-2.0
// Augmenter: other wordings of training examples. What becomes of an example depends on the seed, the epoch and the
// example alone, so that any step can be made again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/labelled/encoded_set.h"
#include "data/labelled/synonyms.h"

namespace gradmill {

// Rates are in [0, 1]; 0 turns a change off. Words are changed first, in the order below, then tokens.
struct AugmentOptions {
  // Words, as blanks separate them. In a pair each text is changed on its own.
  double synonyms = 0;  // a word of the table is replaced with this probability
  double swap = 0;      // for so many of the words, two words at random change places
  double deletion = 0;  // a word is left out with this probability; one always stays
  // Tokens of the finished sequence, whose length stays. Those of the template are never touched, nor the same tokens
  // inside a text, nor those that `kept_ids` names.
  double span_mask = 0;      // about this share becomes mask_id, in runs of span_length on average
  double token_dropout = 0;  // a token becomes dropout_id with this probability

  double span_length = 3;
  TokenId mask_id = -1;
  TokenId dropout_id = -1;                   // usually the unknown token's
  std::vector<TokenId> kept_ids = {};        // special tokens that may occur in a text
  std::vector<std::string> kept_words = {};  // and how they are spelled: words that stay where they are
};

class Augmenter {
 public:
  // Throws a usage_error for a rate out of range, and where a change lacks its token or its table.
  Augmenter(AugmentOptions options, Synonyms synonyms, uint64_t seed);

  // An example of the set as the epoch's training reads it.
  Sequence sequence(const EncodedSet& set, int32_t example, int64_t epoch) const;

  // Nothing: no word changed. `part` is 0, or 1 for the second text of a pair.
  std::optional<std::string> change_words(std::string_view text, int32_t example, int64_t epoch, int part) const;
  void change_tokens(Sequence& sequence, int32_t example, int64_t epoch) const;

 private:
  AugmentOptions options_;
  Synonyms synonyms_;
  uint64_t seed_;
};

}  // namespace gradmill
