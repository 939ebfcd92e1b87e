// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/merge_learner.h"

#include <algorithm>

namespace gradmill {

MergeLearner::MergeLearner() : slots_(1 << 10), shift_(64 - 10) {}

size_t MergeLearner::slot(uint64_t key) const {
  size_t i = (key * 0x9E3779B97F4A7C15) >> shift_;
  while (slots_[i] != 0 && pairs_[slots_[i] - 1].key != key) i = (i + 1) & (slots_.size() - 1);
  return i;
}

MergeLearner::PairInfo& MergeLearner::pair(TokenId left, TokenId right) {
  const uint64_t key = key_of(left, right);
  size_t i = slot(key);
  if (slots_[i] == 0) {
    if ((pairs_.size() + 1) * 2 > slots_.size()) {
      grow();
      i = slot(key);
    }
    pairs_.push_back({key});
    slots_[i] = static_cast<uint32_t>(pairs_.size());
  }
  return pairs_[slots_[i] - 1];
}

void MergeLearner::grow() {
  slots_.assign(slots_.size() * 2, 0);
  --shift_;
  for (uint32_t i = 0; i < pairs_.size(); ++i) slots_[slot(pairs_[i].key)] = i + 1;
}

void MergeLearner::add_word(std::span<const TokenId> tokens, int64_t count) {
  const auto word = static_cast<uint32_t>(words_.size());
  words_.push_back({tokens_.size(), static_cast<uint32_t>(tokens.size()), count});
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  for (size_t i = 0; i + 1 < tokens.size(); ++i) add_pair(tokens[i], tokens[i + 1], word);
}

void MergeLearner::add_pair(TokenId left, TokenId right, uint32_t word) {
  PairInfo& info = pair(left, right);
  info.count += words_[word].count;
  if (info.new_words.empty()) new_pairs_.push_back(static_cast<uint32_t>(&info - pairs_.data()));
  if (info.new_words.empty() || info.new_words.back() != word) info.new_words.push_back(word);
}

void MergeLearner::queue_new_pairs() {
  for (const uint32_t index : new_pairs_) {
    PairInfo& info = pairs_[index];
    if (info.count > 0) {
      uint32_t list = static_cast<uint32_t>(word_lists_.size());
      if (free_lists_.empty()) {
        word_lists_.emplace_back();
      } else {
        list = free_lists_.back();
        free_lists_.pop_back();
      }
      word_lists_[list].swap(info.new_words);
      heap_.push_back({info.count, info.key, index, list});
      std::push_heap(heap_.begin(), heap_.end());
    }
    info.new_words.clear();
  }
  new_pairs_.clear();
}

void MergeLearner::run(int64_t min_count, const std::function<bool()>& may_go_on,
                       const std::function<TokenId(TokenPair)>& merged_id) {
  queue_new_pairs();
  while (may_go_on() && !heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    Candidate& top = heap_.back();
    const int64_t count = pairs_[top.pair].count;
    if (top.count != count) {
      top.count = count;
      std::push_heap(heap_.begin(), heap_.end());
      continue;
    }
    if (count < std::max<int64_t>(min_count, 1)) break;
    const Candidate best = top;
    heap_.pop_back();
    const TokenPair merge{static_cast<TokenId>(best.key >> 32), static_cast<TokenId>(best.key & 0xFFFFFFFF)};
    const TokenId merged = merged_id(merge);
    for (const uint32_t word : word_lists_[best.words]) merge_in_word(word, merge, merged);
    word_lists_[best.words].clear();
    free_lists_.push_back(best.words);
    queue_new_pairs();
  }
}

// The count of the merged pair itself stays. If two pairs make the same token, a pair that contains it can be on the
// heap twice, and its second entry merges only because of this. Hugging Face's trainer does the same.
void MergeLearner::merge_in_word(uint32_t word, TokenPair merge, TokenId merged) {
  TokenId* const tokens = tokens_.data() + words_[word].begin;
  const uint32_t length = words_[word].length;
  uint32_t written = 0;
  for (uint32_t i = 0; i < length; ++i) {
    if (i + 1 == length || tokens[i] != merge.first || tokens[i + 1] != merge.second) {
      tokens[written++] = tokens[i];
      continue;
    }
    if (written > 0) {
      remove_pair(tokens[written - 1], merge.first, word);
      add_pair(tokens[written - 1], merged, word);
    }
    if (i + 2 < length) {
      remove_pair(merge.second, tokens[i + 2], word);
      add_pair(merged, tokens[i + 2], word);
    }
    tokens[written++] = merged;
    ++i;
  }
  words_[word].length = written;
}

}  // namespace gradmill
