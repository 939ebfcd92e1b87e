// SPDX-License-Identifier: Apache-2.0
// The steps that cut a normalised text into words, as tokenizer.json names them.
#pragma once

#include <memory>
#include <vector>

#include "tokenizer/normalized_text.h"
#include "tokenizer/split_scanner.h"
#include "tokenizer/text_pattern.h"

namespace gradmill {

// One step; each gets the pieces of the one before. Immutable, and linear in the text.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  // What becomes of a piece before it is cut; `first` says that it begins the text.
  virtual void rewrite(Rewriter&, bool /*first*/) const {}
  virtual bool rewrites() const { return false; }

  // The next part, from `position`, where a part ended, or 0. Empty behind the last one.
  virtual TokenSpan next(std::string_view text, size_t position) const { return {position, text.size()}; }
};

using PreTokenizerList = std::vector<std::unique_ptr<const PreTokenizer>>;

enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
enum class PrependScheme { always, first, never };

std::unique_ptr<const PreTokenizer> make_scanner(SplitKind kind);
std::unique_ptr<const PreTokenizer> make_split(TextPattern pattern, SplitBehavior behavior, bool invert);
// Spaces become `replacement`, and one is put before the piece by the scheme.
std::unique_ptr<const PreTokenizer> make_metaspace(std::string replacement, PrependScheme scheme, bool split);
// White space separates, and every mark of punctuation stands alone.
std::unique_ptr<const PreTokenizer> make_bert_pre_tokenizer();
// The parts of ByteLevel beside its pattern: a space before pieces without one, and the spelling of bytes.
std::unique_ptr<const PreTokenizer> make_prefix_space();
std::unique_ptr<const PreTokenizer> make_byte_spelling();

}  // namespace gradmill
