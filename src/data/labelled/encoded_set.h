// SPDX-License-Identifier: Apache-2.0
// EncodedSet: the token ids of a LabelledSet.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/labelled/labelled_set.h"
#include "tokenizer/sequence_template.h"
#include "tokenizer/tokenizer.h"

namespace gradmill {

struct EncodeSetOptions {
  Truncation truncation = {};
  bool parse_special = true;  // as in Hugging Face's library: "[SEP]" in a text is the separator
  int num_threads = 1;        // total number of threads, including the calling one; 0 means 1
};

// Immutable; any thread may use it.
class EncodedSet {
 public:
  // All arguments must outlive the set. Encodes everything; the result does not depend on the threads. Throws a
  // usage_error if max_length leaves no space for text. Throws a data_error that names file and line if a text cannot
  // be encoded or an example has no token.
  EncodedSet(const LabelledSet& set, const Tokenizer& tokenizer, const SequenceTemplate& form,
             const EncodeSetOptions& options);

  const LabelledSet& set() const { return set_; }
  int64_t size() const { return set_.size(); }
  const LabelledExample& example(int32_t index) const { return set_.examples[static_cast<size_t>(index)]; }
  // Without the template and without truncation.
  std::span<const TokenId> first(int32_t index) const { return part(2 * static_cast<size_t>(index)); }
  std::span<const TokenId> second(int32_t index) const { return part(2 * static_cast<size_t>(index) + 1); }

  // The sequence that a model reads. length() is its number of tokens, full_length() the number before truncation.
  Sequence sequence(int32_t index) const;
  int64_t length(int32_t index) const;
  int64_t full_length(int32_t index) const;
  int64_t max_length() const { return options_.truncation.max_length; }  // 0: no limit

  // The same for other texts than the example's own, such as changed ones. `second` is used for pairs only.
  Sequence sequence_of(std::string_view first, std::string_view second) const;

  const SequenceTemplate& form() const { return form_; }

 private:
  void encode_all(int num_threads);
  std::span<const TokenId> part(size_t index) const {
    return std::span(ids_).subspan(begin_[index], begin_[index + 1] - begin_[index]);
  }

  const LabelledSet& set_;
  const Tokenizer& tokenizer_;
  const SequenceTemplate& form_;
  EncodeSetOptions options_;
  std::vector<TokenId> ids_;
  std::vector<size_t> begin_ = {0};  // start of every first and second text in turn, and the end
};

}  // namespace gradmill
