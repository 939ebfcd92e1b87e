// SPDX-License-Identifier: Apache-2.0
// Augmenter: varies the wording of training examples. The result depends only on the seed, the epoch and the example,
// so that any step can be repeated.
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
  // Words are separated by blanks. In a pair, each text is changed separately.
  double synonyms = 0;  // probability that a word in the table is replaced
  double swap = 0;      // number of swaps, as a fraction of the words; each swaps two random words
  double deletion = 0;  // probability that a word is deleted; at least one word remains
  // Tokens of the finished sequence, whose length does not change. Tokens of the template never change, nor do the same
  // tokens inside a text, nor those in `kept_ids`.
  double span_mask = 0;      // fraction of tokens, on average, that become mask_id, in runs of span_length tokens on
                             // average
  double token_dropout = 0;  // probability that a token becomes dropout_id

  double span_length = 3;
  TokenId mask_id = -1;
  TokenId dropout_id = -1;                   // usually the unknown token's
  std::vector<TokenId> kept_ids = {};        // special tokens that may occur in a text
  std::vector<std::string> kept_words = {};  // their spellings: words that are never changed
};

class Augmenter {
 public:
  // Throws a usage_error for a rate out of range, and if a change lacks its token or its table.
  Augmenter(AugmentOptions options, Synonyms synonyms, uint64_t seed);

  // An example of the set as training reads it in this epoch.
  Sequence sequence(const EncodedSet& set, int32_t example, int64_t epoch) const;

  // Returns nothing if no word changed. `part` is 0, or 1 for the second text of a pair.
  std::optional<std::string> change_words(std::string_view text, int32_t example, int64_t epoch, int part) const;
  void change_tokens(Sequence& sequence, int32_t example, int64_t epoch) const;

 private:
  AugmentOptions options_;
  Synonyms synonyms_;
  uint64_t seed_;
};

}  // namespace gradmill
