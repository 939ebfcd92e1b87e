// SPDX-License-Identifier: Apache-2.0
// The patterns of Split and Replace: a string, or a simple regular expression that needs no backtracking.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/split_scanner.h"
#include "tokenizer/tokenizer.h"

namespace gradmill {

// A set of characters, such as [..], \s or \p{L}.
class CharSet {
 public:
  enum class Kind : uint8_t { space, digit, word, letter, number, punctuation };

  void add(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  void add(Kind kind, bool negated = false) { kinds_.push_back({kind, negated}); }
  void negate() { negated_ = true; }
  bool contains(char32_t c) const;

 private:
  struct Range {
    char32_t first, last;
  };
  struct KindItem {
    Kind kind;
    bool negated;
  };
  std::vector<Range> ranges_;
  std::vector<KindItem> kinds_;
  bool negated_ = false;
};

// Immutable. Takes linear time: the pattern consists of alternatives that are runs of one set of characters, or is one
// of the scanners.
class TextPattern {
 public:
  static TextPattern literal(std::string text);
  static TextPattern characters(CharSet::Kind kind);
  // The pattern \w+|[^\w\s]+.
  static TextPattern words();
  // Returns nothing unless the expression consists of alternatives of [..]{m,n} or is a pattern in split_scanner.h.
  static std::optional<TextPattern> regex(std::string_view expression);

  // The first match that begins at `from` or later; it is never empty. Returns {size, size} if there is none.
  TokenSpan find(std::string_view text, size_t from) const;

 private:
  // At least `min` and at most `max` characters of `set`, as many as possible.
  struct Run {
    CharSet set;
    uint32_t min = 1, max = 1;
  };
  friend class RunParser;
  size_t match_run(const Run& run, std::string_view text, size_t begin) const;

  std::string literal_;
  std::optional<SplitKind> scanner_;
  std::vector<Run> runs_;
};

}  // namespace gradmill
