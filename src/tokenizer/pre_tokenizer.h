// SPDX-License-Identifier: Apache-2.0
// The steps that cut a normalised text into words, with the names used in tokenizer.json.
#pragma once

#include <memory>
#include <vector>

#include "tokenizer/normalized_text.h"
#include "tokenizer/split_scanner.h"
#include "tokenizer/text_pattern.h"

namespace gradmill {

// One step; it receives the pieces of the step before. Immutable. Takes O(n) time.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  // Rewrites a piece before it is cut; `first` says that the piece begins the text.
  virtual void rewrite(Rewriter&, bool /*first*/) const {}
  virtual bool rewrites() const { return false; }

  // The next part, from `position`, which is 0 or the end of the previous part. Empty after the last part.
  virtual TokenSpan next(std::string_view text, size_t position) const { return {position, text.size()}; }
};

using PreTokenizerList = std::vector<std::unique_ptr<const PreTokenizer>>;

enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
enum class PrependScheme { always, first, never };

std::unique_ptr<const PreTokenizer> make_scanner(SplitKind kind);
std::unique_ptr<const PreTokenizer> make_split(TextPattern pattern, SplitBehavior behavior, bool invert);
// Replaces spaces with `replacement`, and puts one before the piece according to the scheme.
std::unique_ptr<const PreTokenizer> make_metaspace(std::string replacement, PrependScheme scheme, bool split);
// Splits at white space, and makes each punctuation character a separate piece.
std::unique_ptr<const PreTokenizer> make_bert_pre_tokenizer();
// The parts of ByteLevel other than its pattern: a space before pieces that begin without one, and the spelling of
// bytes.
std::unique_ptr<const PreTokenizer> make_prefix_space();
std::unique_ptr<const PreTokenizer> make_byte_spelling();

}  // namespace gradmill
