// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE from text to ids: added tokens, normalisation, split patterns, merges.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/split_scanner.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/word_cache.h"

namespace gradmill {

// One step on the way from a text to words; each gets the pieces of the one before.
struct PreTokenizeStep {
  std::optional<SplitKind> split;
  bool prefix_space = false;  // pieces that do not begin with a space get one first
};

struct BpeSettings {
  bool nfc = false;
  std::vector<PreTokenizeStep> steps;
  std::vector<AddedToken> added_tokens;
};

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(Bpe bpe, BpeSettings settings);
  // added_ points into itself.
  BpeTokenizer(const BpeTokenizer&) = delete;
  BpeTokenizer& operator=(const BpeTokenizer&) = delete;

  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const override;
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const override;
  int64_t vocab_size() const override;
  std::optional<std::string> token(TokenId id) const override;
  std::optional<TokenId> id(std::string_view token) const override;

 private:
  friend class BpeEncoder;
  std::unique_ptr<WordCache> borrow_cache() const;
  void return_cache(std::unique_ptr<WordCache> cache) const;

  Bpe bpe_;
  bool nfc_;
  std::vector<PreTokenizeStep> steps_;
  AddedTokens added_;
  // Each call of encode() has a cache to itself while it runs, so that threads share no lines.
  mutable std::mutex caches_mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> idle_caches_;
};

}  // namespace gradmill
