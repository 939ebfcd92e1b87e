// SPDX-License-Identifier: Apache-2.0
// The heart of learning a BPE: the most frequent pair merges, of equals the one with the lowest ids, again and again.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "tokenizer/token_id.h"

namespace gradmill {

using TokenPair = std::pair<TokenId, TokenId>;

// Words as tokens, and how often pairs of neighbours come in them.
class MergeLearner {
 public:
  MergeLearner();
  // `count` is how often the word comes.
  void add_word(std::span<const TokenId> tokens, int64_t count);

  // Merges while `may_go_on` says so and some pair comes at least `min_count` times. `merged_id` gives the id of the
  // token that a pair makes.
  void run(int64_t min_count, const std::function<bool()>& may_go_on,
           const std::function<TokenId(TokenPair)>& merged_id);

 private:
  struct Word {
    size_t begin;  // in tokens_
    uint32_t length;
    int64_t count;
  };
  // Words that got a pair since it was last put on the heap.
  struct PairInfo {
    uint64_t key;
    int64_t count = 0;
    std::vector<uint32_t> new_words;
  };
  // Counts on the heap may be out of date: an entry whose count is goes back with the right one.
  struct Candidate {
    int64_t count;
    uint64_t key;
    uint32_t pair;   // in pairs_
    uint32_t words;  // in word_lists_
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
  std::vector<uint32_t> slots_;  // pair + 1, or 0; a power of two, at most half full
  int shift_;
  std::vector<uint32_t> new_pairs_;  // those with new words
  std::vector<std::vector<uint32_t>> word_lists_;
  std::vector<uint32_t> free_lists_;
  std::vector<Candidate> heap_;
};

}  // namespace gradmill
