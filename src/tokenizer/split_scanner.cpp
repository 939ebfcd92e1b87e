// SPDX-License-Identifier: Apache-2.0
// Each function matches one alternative of a pattern. It returns the end of the match, or 0 if there is none; since no
// match is empty, none ends at 0.
#include "tokenizer/split_scanner.h"

#include <array>
#include <utility>

#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

constexpr size_t kNoMatch = 0;

struct Char {
  char32_t value = 0;
  CharClass kind = CharClass::space;
  size_t end = 0;  // 0 at the end of the text
};

Char char_at(std::string_view text, size_t position) {
  if (position >= text.size()) return {};
  const Utf8Char c = read_utf8(text, position);
  return {c.value, char_class(c.value), position + c.num_bytes};
}

size_t skip_class(std::string_view text, size_t position, CharClass kind) {
  for (Char c = char_at(text, position); c.end != 0 && c.kind == kind; c = char_at(text, position)) position = c.end;
  return position;
}

bool is_newline(char32_t c) { return c == '\r' || c == '\n'; }

// U+017F folds to 's', like 'S'. No other character outside ASCII folds to one of these letters.
char32_t fold(char32_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c == 0x17F ? U's' : c; }

// 's|'t|'re|'ve|'m|'ll|'d
size_t match_contraction(std::string_view text, size_t begin, bool any_case) {
  if (text[begin] != '\'') return kNoMatch;
  const Char first = char_at(text, begin + 1);
  const char32_t a = any_case ? fold(first.value) : first.value;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return first.end;
  if (a != 'r' && a != 'v' && a != 'l') return kNoMatch;
  const Char second = char_at(text, first.end);
  const char32_t b = any_case ? fold(second.value) : second.value;
  return b == (a == 'l' ? U'l' : U'e') ? second.end : kNoMatch;
}

// \s+(?!\S)|\s+ : a run of white space leaves its last character to the word after it.
size_t match_space(std::string_view text, size_t begin) {
  size_t position = begin, last = begin;
  for (Char c = char_at(text, position); c.end != 0 && c.kind == CharClass::space; c = char_at(text, position)) {
    last = position;
    position = c.end;
  }
  return position == text.size() || last == begin ? position : last;
}

// \s*[\r
// ]+ : up to the last line break of the run.
size_t match_lines(std::string_view text, size_t begin) {
  size_t position = begin, end = kNoMatch;
  for (Char c = char_at(text, position); c.end != 0 && c.kind == CharClass::space; c = char_at(text, position)) {
    position = c.end;
    if (is_newline(c.value)) end = position;
  }
  return end;
}

size_t next_gpt2(std::string_view text, size_t begin) {
  if (const size_t end = match_contraction(text, begin, false)) return end;
  Char first = char_at(text, begin);
  if (text[begin] == ' ') {
    const Char second = char_at(text, begin + 1);
    if (second.kind != CharClass::space) first = second;
  }
  return first.kind == CharClass::space ? match_space(text, begin) : skip_class(text, first.end, first.kind);
}

// [^\r\n\p{L}\p{N}]?\p{L}+
size_t match_letters(std::string_view text, const Char& first) {
  if (first.kind == CharClass::letter) return skip_class(text, first.end, CharClass::letter);
  if (first.kind == CharClass::number || is_newline(first.value)) return kNoMatch;
  const Char second = char_at(text, first.end);
  return second.kind == CharClass::letter ? skip_class(text, second.end, CharClass::letter) : kNoMatch;
}

//  ?[^\s\p{L}\p{N}]+[\r\n]*
size_t match_symbols(std::string_view text, size_t begin) {
  const size_t start = text[begin] == ' ' ? begin + 1 : begin;
  size_t end = skip_class(text, start, CharClass::other);
  if (end == start) return kNoMatch;
  while (end < text.size() && is_newline(static_cast<unsigned char>(text[end]))) ++end;
  return end;
}

size_t next_cl100k(std::string_view text, size_t begin, int max_digits) {
  if (const size_t end = match_contraction(text, begin, true)) return end;
  const Char first = char_at(text, begin);
  if (const size_t end = match_letters(text, first)) return end;
  if (first.kind == CharClass::number) {
    size_t end = first.end;
    for (int i = 1; i < max_digits; ++i) {
      const Char c = char_at(text, end);
      if (c.kind != CharClass::number) break;
      end = c.end;
    }
    return end;
  }
  if (const size_t end = match_symbols(text, begin)) return end;
  if (const size_t end = match_lines(text, begin)) return end;
  return match_space(text, begin);
}

size_t next_digits(std::string_view text, size_t begin, bool runs) {
  const Utf8Char first = read_utf8(text, begin);
  const bool number = is_numeric(first.value);
  size_t end = begin + first.num_bytes;
  while (end < text.size() && (runs || !number)) {
    const Utf8Char c = read_utf8(text, end);
    if (is_numeric(c.value) != number) break;
    end += c.num_bytes;
  }
  return end;
}

}  // namespace

std::optional<SplitKind> split_kind_of_pattern(std::string_view pattern) {
  constexpr std::array<std::pair<std::string_view, SplitKind>, 3> kKnown = {
      {{kGpt2Pattern, SplitKind::gpt2}, {kCl100kPattern, SplitKind::cl100k}, {kQwen2Pattern, SplitKind::qwen2}}};
  for (const auto& [text, kind] : kKnown) {
    if (pattern == text) return kind;
  }
  return std::nullopt;
}

size_t next_split(SplitKind kind, std::string_view text, size_t begin) {
  switch (kind) {
    case SplitKind::gpt2:
      return next_gpt2(text, begin);
    case SplitKind::cl100k:
      return next_cl100k(text, begin, 3);
    case SplitKind::qwen2:
      return next_cl100k(text, begin, 1);
    case SplitKind::digits:
      return next_digits(text, begin, false);
    case SplitKind::digit_runs:
      return next_digits(text, begin, true);
  }
  return text.size();
}

}  // namespace gradmill
