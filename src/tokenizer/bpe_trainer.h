// SPDX-License-Identifier: Apache-2.0
// Learns a byte-level BPE from text, with the result that Hugging Face's BpeTrainer has for the same text and settings.
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
  int64_t vocab_size = 32000;  // tokens in all; special tokens and the alphabet stay even if they are more
  uint64_t min_frequency = 0;  // pairs that are rarer do not merge
  SplitKind split = SplitKind::gpt2;
  std::vector<std::string> special_tokens;  // get the first ids
  bool all_bytes = true;                    // tokens for bytes that the text lacks too, so that any text can be encoded
};

struct TrainedBpe {
  SplitKind split = SplitKind::gpt2;
  std::vector<std::string> special_tokens;
  std::vector<std::string> tokens;  // by id, special tokens first, as a file spells them
  std::vector<std::pair<TokenId, TokenId>> merges;

  // The text of a tokenizer.json that Hugging Face's library, of any version, and parse_tokenizer_json() load.
  std::string to_json() const;
};

class BpeTrainer {
 public:
  // Throws a usage_error for a special token that is empty or given twice.
  explicit BpeTrainer(BpeTrainerOptions options);

  // Counts the words of texts, which words do not reach across. The result does not depend on the number of threads.
  void feed(std::string_view text);
  void feed(std::span<const std::string_view> texts, int num_threads);
  TrainedBpe train() const;

 private:
  BpeTrainerOptions options_;
  WordCounter words_;
};

}  // namespace gradmill
