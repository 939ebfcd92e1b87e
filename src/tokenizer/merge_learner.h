// SPDX-License-Identifier: Apache-2.0
// The core of BPE learning: repeatedly merges the most frequent pair; among equals, the one with the lowest ids.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "tokenizer/token_id.h"

namespace gradmill {

using TokenPair = std::pair<TokenId, TokenId>;

// Words as lists of tokens, and the frequencies of neighbouring pairs in them.
class MergeLearner {
 public:
  MergeLearner();
  // `count` is the frequency of the word.
  void add_word(std::span<const TokenId> tokens, int64_t count);

  // Merges while `may_go_on` returns true and some pair occurs at least `min_count` times. `merged_id` returns the id
  // of the token that a pair makes.
  void run(int64_t min_count, const std::function<bool()>& may_go_on,
           const std::function<TokenId(TokenPair)>& merged_id);

 private:
  struct Word {
    size_t begin;  // index into tokens_
    uint32_t length;
    int64_t count;
  };
  // The words that gained a pair since it was last put on the heap.
  struct PairInfo {
    uint64_t key;
    int64_t count = 0;
    std::vector<uint32_t> new_words;
  };
  // Counts on the heap may be outdated. An entry with an outdated count is put back with the right one.
  struct Candidate {
    int64_t count;
    uint64_t key;
    uint32_t pair;   // index into pairs_
    uint32_t words;  // index into word_lists_
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : other.key < key;
    }
  };

  static uint64_t key_of(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  PairInfo& pair(TokenId left, TokenId right);
  size_t slot(uint64_t key) const;
  void grow();
  void add_pair(TokenId left, TokenId right, uint32_t word);
  void remove_pair(TokenId left, TokenId right, uint32_t word) { pair(left, right).count -= words_[word].count; }
  void queue_new_pairs();
  void merge_in_word(uint32_t word, TokenPair merge, TokenId merged);

  std::vector<TokenId> tokens_;
  std::vector<Word> words_;
  std::vector<PairInfo> pairs_;
  std::vector<uint32_t> slots_;  // pair + 1, or 0 if free; the size is a power of two, at most half full
  int shift_;
  std::vector<uint32_t> new_pairs_;  // pairs with new words
  std::vector<std::vector<uint32_t>> word_lists_;
  std::vector<uint32_t> free_lists_;
  std::vector<Candidate> heap_;
};

}  // namespace gradmill
