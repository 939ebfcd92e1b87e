// SPDX-License-Identifier: Apache-2.0
// A tokenizer assembled from the components of a tokenizer.json: added tokens, normalizers, pre-tokenizers, model,
// decoder, template.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/word_cache.h"
#include "tokenizer/word_model.h"

namespace gradmill {

struct PipelineParts {
  std::unique_ptr<const WordModel> model;
  std::vector<AddedToken> added_tokens;
  NormalizerList normalizers;
  PreTokenizerList pre_tokenizers;
  DecoderList decoders;  // empty: concatenates the bytes of the tokens
  SequenceTemplate sequence_template;
};

class PipelineTokenizer final : public Tokenizer {
 public:
  explicit PipelineTokenizer(PipelineParts parts);
  // Not copyable, because added_ contains pointers into itself.
  PipelineTokenizer(const PipelineTokenizer&) = delete;
  PipelineTokenizer& operator=(const PipelineTokenizer&) = delete;

  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const override;
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const override;
  int64_t vocab_size() const override;
  std::optional<std::string> token(TokenId id) const override;
  std::optional<TokenId> id(std::string_view token) const override;
  const SequenceTemplate& sequence_template() const override { return parts_.sequence_template; }

 private:
  friend class PipelineEncoder;
  // The bytes of an id before the decode steps; nothing for a special token that is skipped.
  std::optional<std::string_view> decoded_token(TokenId id, bool skip_special) const;
  std::unique_ptr<WordCache> borrow_cache() const;
  void return_cache(std::unique_ptr<WordCache> cache) const;

  PipelineParts parts_;
  AddedTokens added_;
  // Each running call of encode() has exclusive use of one cache, so that threads share no cache lines.
  mutable std::mutex caches_mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> idle_caches_;
};

}  // namespace gradmill
