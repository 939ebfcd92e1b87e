// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding of one word: of all neighbours the pair with the lowest rank merges, the leftmost first, until
// none does.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "tokenizer/merge_table.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace gradmill {

struct BpeOptions {
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges would make of it
  TokenId unknown = -1;        // for bytes without a token; -1 where there is none
  bool fuse_unknown = false;   // neighbouring unknown bytes are one token
};

// A token and how many bytes of the word it covers.
struct BpeToken {
  TokenId id;
  uint32_t num_bytes;
};

class Bpe {
 public:
  Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, const BpeOptions& options);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the tokens of a word of raw bytes, in time n log n. Throws a data_error for a byte that has no token where
  // there is no unknown token either: losing text unseen would be worse.
  void encode_word(std::string_view word, std::vector<BpeToken>& tokens) const;

 private:
  void split_bytes(std::string_view word, std::vector<BpeToken>& tokens) const;
  void merge_short(std::vector<BpeToken>& tokens, size_t begin) const;
  void merge_long(std::vector<BpeToken>& tokens, size_t begin) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  std::array<TokenId, 256> byte_ids_;  // -1 where a byte has no token
};

}  // namespace gradmill
