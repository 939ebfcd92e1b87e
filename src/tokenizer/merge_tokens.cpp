// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/merge_tokens.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <span>
#include <utility>

namespace gradmill {
namespace {

// For shorter words, scanning all pairs again is cheaper than a heap.
constexpr size_t kMaxShort = 24;

constexpr uint32_t kNone = 0xFFFFFFFF;

struct Symbol {
  WordToken token;
  uint32_t previous, next;
  uint32_t rank;  // rank of the pair that starts here
};

// A linked list of symbols and a heap of the pairs that can merge. An entry of the heap becomes outdated when a
// neighbour merges. This is noticed because the symbol then has another rank: the token at a position only grows, so a
// pair never returns.
class MergeQueue {
 public:
  MergeQueue(const MergeTable& merges, std::span<const WordToken> tokens) : merges_(merges), symbols_(tokens.size()) {
    const auto size = static_cast<uint32_t>(tokens.size());
    std::vector<uint64_t> entries;
    for (uint32_t i = 0; i < size; ++i) {
      symbols_[i] = {tokens[i], i == 0 ? kNone : i - 1, i + 1 == size ? kNone : i + 1, kNoMerge};
      if (i + 1 == size) break;
      symbols_[i].rank = merges.find(tokens[i].id, tokens[i + 1].id).rank;
      if (symbols_[i].rank != kNoMerge) entries.push_back(entry(i));
    }
    heap_ = Heap(std::greater<>(), std::move(entries));
  }

  void run() {
    while (!heap_.empty()) {
      const uint64_t top = heap_.top();
      heap_.pop();
      const auto place = static_cast<uint32_t>(top);
      if (symbols_[place].rank == top >> 32) merge(place);
    }
  }

  // Overwrites the tokens with the remaining ones, and returns their number.
  size_t copy_to(WordToken* tokens) const {
    size_t count = 0;
    for (uint32_t i = symbols_.empty() ? kNone : 0; i != kNone; i = symbols_[i].next)
      tokens[count++] = symbols_[i].token;
    return count;
  }

 private:
  using Heap = std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>>;

  // Entries are ordered by rank, then by position.
  uint64_t entry(uint32_t place) const { return static_cast<uint64_t>(symbols_[place].rank) << 32 | place; }

  void merge(uint32_t place) {
    Symbol& left = symbols_[place];
    Symbol& right = symbols_[left.next];
    left.token = {merges_.find(left.token.id, right.token.id).merged, left.token.num_bytes + right.token.num_bytes};
    left.next = right.next;
    right.rank = kNoMerge;
    if (left.next != kNone) symbols_[left.next].previous = place;
    update(place);
    if (left.previous != kNone) update(left.previous);
  }

  void update(uint32_t place) {
    Symbol& symbol = symbols_[place];
    symbol.rank = symbol.next == kNone ? kNoMerge : merges_.find(symbol.token.id, symbols_[symbol.next].token.id).rank;
    if (symbol.rank != kNoMerge) heap_.push(entry(place));
  }

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  Heap heap_;
};

void merge_short(const MergeTable& merges, std::vector<WordToken>& tokens, size_t begin) {
  std::array<MergeTable::Entry, kMaxShort> pairs;  // pairs[i] consists of tokens i and i + 1
  size_t size = tokens.size() - begin;
  WordToken* const token = tokens.data() + begin;
  for (size_t i = 0; i + 1 < size; ++i) pairs[i] = merges.find(token[i].id, token[i + 1].id);
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNoMerge) break;
    token[best] = {pairs[best].merged, token[best].num_bytes + token[best + 1].num_bytes};
    std::copy(token + best + 2, token + size, token + best + 1);
    std::copy(pairs.begin() + static_cast<ptrdiff_t>(best) + 1, pairs.begin() + static_cast<ptrdiff_t>(size) - 1,
              pairs.begin() + static_cast<ptrdiff_t>(best));
    --size;
    if (best + 1 < size) pairs[best] = merges.find(token[best].id, token[best + 1].id);
    if (best > 0) pairs[best - 1] = merges.find(token[best - 1].id, token[best].id);
  }
  tokens.resize(begin + size);
}

}  // namespace

void merge_tokens(const MergeTable& merges, std::vector<WordToken>& tokens, size_t begin) {
  if (tokens.size() - begin <= kMaxShort) return merge_short(merges, tokens, begin);
  MergeQueue queue(merges, std::span(tokens).subspan(begin));
  queue.run();
  tokens.resize(begin + queue.copy_to(tokens.data() + begin));
}

}  // namespace gradmill
