// SPDX-License-Identifier: Apache-2.0
// The most frequent pair merges, of equals the one with the lowest ids, until the vocabulary is full. Counts are kept
// up to date by the merges; the heap is lazy: an entry whose count is out of date goes back with the right one.
#include "tokenizer/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <set>

#include "core/error.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

using Pair = std::pair<TokenId, TokenId>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    return (static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32 | static_cast<uint32_t>(pair.second)) *
           0x9E3779B97F4A7C15;
  }
};

// A pair and the words that got it since it was last put on the heap.
struct Candidate {
  int64_t count;
  Pair pair;
  std::vector<uint32_t> words;

  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : other.pair < pair;
  }
};

class Trainer {
 public:
  Trainer(const BpeTrainerOptions& options, const std::unordered_map<std::string, int64_t>& word_counts)
      : options_(options) {
    for (const std::string& token : options.special_tokens) token_id(token);
    add_alphabet(word_counts);
    add_words(word_counts);
  }

  TrainedBpe run() {
    queue_new_pairs();
    while (static_cast<int64_t>(tokens_.size()) < options_.vocab_size && !queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      const int64_t count = pair_counts_[top.pair];
      if (top.count != count) {
        top.count = count;
        queue_.push(std::move(top));
        continue;
      }
      if (count < 1 || static_cast<uint64_t>(count) < options_.min_frequency) break;
      merge(top);
    }
    return {options_.split, options_.special_tokens, std::move(tokens_), distinct_merges()};
  }

 private:
  TokenId token_id(const std::string& token) {
    const auto [entry, is_new] = ids_.try_emplace(token, static_cast<TokenId>(tokens_.size()));
    if (is_new) tokens_.push_back(token);
    return entry->second;
  }

  // In the order of the characters that spell the bytes.
  void add_alphabet(const std::unordered_map<std::string, int64_t>& word_counts) {
    std::set<char32_t> letters;
    for (unsigned byte = 0; options_.all_bytes && byte < 256; ++byte) {
      letters.insert(byte_to_char(static_cast<unsigned char>(byte)));
    }
    if (!options_.all_bytes) {
      for (const auto& [word, count] : word_counts) {
        for (const char byte : word) letters.insert(byte_to_char(static_cast<unsigned char>(byte)));
      }
    }
    for (const char32_t letter : letters) {
      std::string token;
      append_code_point(token, letter);
      token_id(token);
    }
  }

  void add_words(const std::unordered_map<std::string, int64_t>& word_counts) {
    std::vector<TokenId> byte_ids(256, -1);
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char letter = static_cast<char>(byte);
      const auto found = ids_.find(spell_bytes({&letter, 1}));
      if (found != ids_.end()) byte_ids[byte] = found->second;
    }
    for (const auto& [word, count] : word_counts) {
      const auto index = static_cast<uint32_t>(words_.size());
      std::vector<TokenId>& symbols = words_.emplace_back();
      for (const char byte : word) symbols.push_back(byte_ids[static_cast<unsigned char>(byte)]);
      counts_.push_back(count);
      for (size_t i = 0; i + 1 < symbols.size(); ++i) add_pair({symbols[i], symbols[i + 1]}, index);
    }
  }

  void add_pair(Pair pair, uint32_t word) {
    pair_counts_[pair] += counts_[word];
    std::vector<uint32_t>& words = new_pairs_[pair];
    if (words.empty() || words.back() != word) words.push_back(word);
  }
  void remove_pair(Pair pair, uint32_t word) { pair_counts_[pair] -= counts_[word]; }

  void queue_new_pairs() {
    for (auto& [pair, words] : new_pairs_) {
      if (const int64_t count = pair_counts_[pair]; count > 0) queue_.push({count, pair, std::move(words)});
    }
    new_pairs_.clear();
  }

  void merge(const Candidate& candidate) {
    const auto [left, right] = candidate.pair;
    const TokenId merged = token_id(tokens_[static_cast<size_t>(left)] + tokens_[static_cast<size_t>(right)]);
    merges_.push_back(candidate.pair);
    for (const uint32_t word : candidate.words) merge_in_word(word, candidate.pair, merged);
    queue_new_pairs();
  }

  // The merged pair's own count stays. Where two pairs make one token, a pair with it can be on the heap twice, and
  // only so does its second entry merge too, as in Hugging Face's trainer.
  void merge_in_word(uint32_t word, Pair pair, TokenId merged) {
    std::vector<TokenId>& symbols = words_[word];
    size_t written = 0;
    for (size_t i = 0; i < symbols.size(); ++i) {
      if (i + 1 == symbols.size() || symbols[i] != pair.first || symbols[i + 1] != pair.second) {
        symbols[written++] = symbols[i];
        continue;
      }
      if (written > 0) {
        remove_pair({symbols[written - 1], pair.first}, word);
        add_pair({symbols[written - 1], merged}, word);
      }
      if (i + 2 < symbols.size()) {
        remove_pair({pair.second, symbols[i + 2]}, word);
        add_pair({merged, symbols[i + 2]}, word);
      }
      symbols[written++] = merged;
      ++i;
    }
    symbols.resize(written);
  }

  // Of equal merges the last one counts, as it does when a file is read.
  std::vector<Pair> distinct_merges() const {
    std::set<Pair> seen;
    std::vector<Pair> merges;
    for (auto merge = merges_.rbegin(); merge != merges_.rend(); ++merge) {
      if (seen.insert(*merge).second) merges.push_back(*merge);
    }
    std::reverse(merges.begin(), merges.end());
    return merges;
  }

  const BpeTrainerOptions& options_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, TokenId> ids_;
  std::vector<std::vector<TokenId>> words_;
  std::vector<int64_t> counts_;  // of words_
  std::unordered_map<Pair, int64_t, PairHash> pair_counts_;
  std::unordered_map<Pair, std::vector<uint32_t>, PairHash> new_pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<Pair> merges_;
};

}  // namespace

BpeTrainer::BpeTrainer(BpeTrainerOptions options) : options_(std::move(options)) {
  std::set<std::string> seen;
  for (const std::string& token : options_.special_tokens) {
    if (token.empty() || !seen.insert(token).second) {
      throw usage_error(fmt::format("the special token '{}' is empty or given twice", token), "name each once");
    }
  }
}

void BpeTrainer::feed(std::string_view text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = next_split(options_.split, text, begin);
    ++word_counts_[std::string(text.substr(begin, end - begin))];
    begin = end;
  }
}

TrainedBpe BpeTrainer::train() const { return Trainer(options_, word_counts_).run(); }

}  // namespace gradmill
