// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <thread>
#include <unordered_map>

#include "core/error.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/merge_learner.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

class Trainer {
 public:
  Trainer(const BpeTrainerOptions& options, const WordCounter& words) : options_(options) {
    for (const std::string& token : options.special_tokens) token_id(token);
    add_alphabet(words);
    add_words(words);
  }

  TrainedBpe run() {
    const auto has_room = [this] { return static_cast<int64_t>(tokens_.size()) < options_.vocab_size; };
    const auto min_count = static_cast<int64_t>(std::min<uint64_t>(options_.min_frequency, INT64_MAX));
    learner_.run(min_count, has_room, [this](TokenPair pair) {
      merges_.push_back(pair);
      return token_id(tokens_[static_cast<size_t>(pair.first)] + tokens_[static_cast<size_t>(pair.second)]);
    });
    return {options_.split, options_.special_tokens, std::move(tokens_), distinct_merges()};
  }

 private:
  TokenId token_id(const std::string& token) {
    const auto [entry, is_new] = ids_.try_emplace(token, static_cast<TokenId>(tokens_.size()));
    if (is_new) tokens_.push_back(token);
    return entry->second;
  }

  // Adds the bytes in the order of the characters that spell them.
  void add_alphabet(const WordCounter& words) {
    std::array<bool, 256> known;
    known.fill(options_.all_bytes);
    words.for_each([&](std::string_view word, int64_t) {
      for (const char byte : word) known[static_cast<unsigned char>(byte)] = true;
    });
    std::set<char32_t> letters;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (known[byte]) letters.insert(byte_to_char(static_cast<unsigned char>(byte)));
    }
    for (const char32_t letter : letters) {
      std::string token;
      append_code_point(token, letter);
      token_id(token);
    }
  }

  void add_words(const WordCounter& words) {
    std::array<TokenId, 256> byte_ids;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char letter = static_cast<char>(byte);
      const auto found = ids_.find(spell_bytes({&letter, 1}));
      byte_ids[byte] = found == ids_.end() ? -1 : found->second;
    }
    std::vector<TokenId> symbols;
    words.for_each([&](std::string_view word, int64_t count) {
      symbols.clear();
      for (const char byte : word) symbols.push_back(byte_ids[static_cast<unsigned char>(byte)]);
      learner_.add_word(symbols, count);
    });
  }

  // The last of equal merges counts, as when a file is read.
  std::vector<TokenPair> distinct_merges() const {
    std::set<TokenPair> seen;
    std::vector<TokenPair> merges;
    for (auto merge = merges_.rbegin(); merge != merges_.rend(); ++merge) {
      if (seen.insert(*merge).second) merges.push_back(*merge);
    }
    std::reverse(merges.begin(), merges.end());
    return merges;
  }

  const BpeTrainerOptions& options_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, TokenId> ids_;
  MergeLearner learner_;
  std::vector<TokenPair> merges_;
};

void count_words(std::string_view text, SplitKind split, WordCounter& words) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = next_split(split, text, begin);
    words.add(text.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace

BpeTrainer::BpeTrainer(BpeTrainerOptions options) : options_(std::move(options)) {
  std::set<std::string> seen;
  for (const std::string& token : options_.special_tokens) {
    if (token.empty() || !seen.insert(token).second) {
      throw usage_error(fmt::format("the special token '{}' is empty or given twice", token), "name each once");
    }
  }
}

void BpeTrainer::feed(std::string_view text) { count_words(text, options_.split, words_); }

void BpeTrainer::feed(std::span<const std::string_view> texts, int num_threads) {
  constexpr size_t kTextsAtOnce = 256;
  std::atomic<size_t> next = 0;
  const auto work = [&](WordCounter& words) {
    for (size_t begin = next.fetch_add(kTextsAtOnce); begin < texts.size(); begin = next.fetch_add(kTextsAtOnce)) {
      const size_t end = std::min(begin + kTextsAtOnce, texts.size());
      for (size_t i = begin; i < end; ++i) count_words(texts[i], options_.split, words);
    }
  };
  std::vector<WordCounter> others(static_cast<size_t>(std::max(num_threads - 1, 0)));
  {
    std::vector<std::jthread> threads;
    for (WordCounter& words : others) threads.emplace_back([&work, &words] { work(words); });
    work(words_);
  }
  for (const WordCounter& words : others) words_.add_all(words);
}

TrainedBpe BpeTrainer::train() const { return Trainer(options_, words_).run(); }

}  // namespace gradmill
