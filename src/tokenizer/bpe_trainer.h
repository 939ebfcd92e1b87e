// SPDX-License-Identifier: Apache-2.0
// Learns a byte-level BPE from text. The result equals that of Hugging Face's BpeTrainer for the same text and
// settings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/split_scanner.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/word_counter.h"

namespace gradmill {

struct BpeTrainerOptions {
  int64_t vocab_size = 32000;  // total number of tokens; special tokens and the alphabet are kept even if they exceed
                               // it
  uint64_t min_frequency = 0;  // rarer pairs are not merged
  SplitKind split = SplitKind::gpt2;
  std::vector<std::string> special_tokens;  // receive the first ids
  bool all_bytes = true;  // also gives tokens to bytes that the text lacks, so that any text can be encoded
};

struct TrainedBpe {
  SplitKind split = SplitKind::gpt2;
  std::vector<std::string> special_tokens;
  std::vector<std::string> tokens;  // by id, special tokens first, as spelled in a file
  std::vector<std::pair<TokenId, TokenId>> merges;

  // The text of a tokenizer.json that all versions of Hugging Face's library and parse_tokenizer_json() can load.
  std::string to_json() const;
};

class BpeTrainer {
 public:
  // Throws a usage_error if a special token is empty or given twice.
  explicit BpeTrainer(BpeTrainerOptions options);

  // Counts the words of a text. Words do not span calls. The result does not depend on the number of threads.
  void feed(std::string_view text);
  void feed(std::span<const std::string_view> texts, int num_threads);
  TrainedBpe train() const;

 private:
  BpeTrainerOptions options_;
  WordCounter words_;
};

}  // namespace gradmill
