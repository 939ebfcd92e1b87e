// SPDX-License-Identifier: Apache-2.0
// Counts the words of a text, in a hash table that owns the words' bytes in large blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace gradmill {

class WordCounter {
 public:
  struct Entry {
    std::string_view word;
    int64_t count = 0;  // 0: a free entry
  };

  WordCounter() : entries_(1 << 10) {}

  void add(std::string_view word, int64_t count = 1) {
    Entry& entry = find(word);
    if (entry.count == 0) return insert(word, count);
    entry.count += count;
  }
  void add_all(const WordCounter& other) {
    other.for_each([this](std::string_view word, int64_t count) { add(word, count); });
  }

  size_t size() const { return size_; }
  // Calls the function with each word and its count, in no particular order.
  template <typename Function>
  void for_each(Function function) const {
    for (const Entry& entry : entries_) {
      if (entry.count != 0) function(entry.word, entry.count);
    }
  }

 private:
  static constexpr size_t kBlockBytes = 1 << 20;

  Entry& find(std::string_view word) {
    const size_t mask = entries_.size() - 1;
    size_t i = std::hash<std::string_view>{}(word)&mask;
    while (entries_[i].count != 0 && entries_[i].word != word) i = (i + 1) & mask;
    return entries_[i];
  }

  void insert(std::string_view word, int64_t count) {
    if (++size_ * 2 > entries_.size()) grow();
    find(word) = {keep(word), count};
  }

  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.count != 0) find(entry.word) = entry;
    }
  }

  std::string_view keep(std::string_view word) {
    if (word.size() > room_) {
      room_ = std::max(kBlockBytes, word.size());
      blocks_.push_back(std::make_unique<char[]>(room_));
      free_ = blocks_.back().get();
    }
    char* const begin = free_;
    std::memcpy(begin, word.data(), word.size());
    free_ += word.size();
    room_ -= word.size();
    return {begin, word.size()};
  }

  std::vector<Entry> entries_;  // the size is a power of two, at most half full
  size_t size_ = 0;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* free_ = nullptr;  // the unused part of the last block
  size_t room_ = 0;
};

}  // namespace gradmill
