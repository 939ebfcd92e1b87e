// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unicode_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

using Point = utf8proc_int32_t;

constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

bool composes(UnicodeForm form) { return form == UnicodeForm::nfc || form == UnicodeForm::nfkc; }
bool compatible(UnicodeForm form) { return form == UnicodeForm::nfkc || form == UnicodeForm::nfkd; }

// Every smaller character is unchanged by the form, whatever comes before it.
char32_t first_unstable(UnicodeForm form) { return form == UnicodeForm::nfc ? 0x300 : compatible(form) ? 0xA0 : 0xC0; }

int combining_class(Point c) {
  return is_ordered_mark(static_cast<char32_t>(c)) ? utf8proc_get_property(c)->combining_class : 0;
}

// Whether nothing before this character can combine with it. Marks can combine, and so can the vowels and finals of
// Hangul.
bool starts_segment(char32_t c) {
  if (c < 0x300 || c == kInvalidByte) return true;
  if ((c >= 0x1160 && c <= 0x11FF) || utf8proc_get_property(static_cast<Point>(c))->combining_class != 0) return false;
  const auto category = utf8proc_category(static_cast<Point>(c));
  return category != UTF8PROC_CATEGORY_MN && category != UTF8PROC_CATEGORY_MC && category != UTF8PROC_CATEGORY_ME;
}

void decompose(char32_t c, bool compatibly, std::vector<Point>& points) {
  if (!has_decomposition(c, compatibly)) return points.push_back(static_cast<Point>(c));
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatibly ? static_cast<int>(UTF8PROC_COMPAT) : 0));
  std::array<Point, 32> parts;
  int boundary = 0;
  const auto count = utf8proc_decompose_char(static_cast<Point>(c), parts.data(), parts.size(), options, &boundary);
  points.insert(points.end(), parts.begin(), parts.begin() + std::clamp<ptrdiff_t>(count, 0, parts.size()));
}

// utf8proc's own reordering takes quadratic time in the number of marks on one character.
void sort_marks(std::vector<Point>& points) {
  for (auto first = points.begin(); first != points.end();) {
    const auto starter = [](Point c) { return combining_class(c) == 0; };
    first = std::find_if_not(first, points.end(), starter);
    const auto last = std::find_if(first, points.end(), starter);
    std::stable_sort(first, last, [](Point a, Point b) { return combining_class(a) < combining_class(b); });
    first = last;
  }
}

std::string normalize_segment(std::string_view segment, UnicodeForm form) {
  std::vector<Point> points;
  for (size_t i = 0; i < segment.size();) {
    const Utf8Char c = read_utf8(segment, i);
    decompose(c.value, compatible(form), points);
    i += c.num_bytes;
  }
  sort_marks(points);
  auto size = static_cast<ptrdiff_t>(points.size());
  if (composes(form)) size = utf8proc_normalize_utf32(points.data(), size, kCompose);
  std::string text;
  for (ptrdiff_t i = 0; i < size; ++i) append_code_point(text, static_cast<char32_t>(points[static_cast<size_t>(i)]));
  return text;
}

}  // namespace

void normalize_form(UnicodeForm form, Rewriter& out) {
  const std::string_view text = out.original();
  if (is_ascii(text)) return;
  for (size_t begin = 0; begin < text.size();) {
    const Utf8Char first = read_utf8(text, begin);
    size_t end = begin + first.num_bytes;
    bool single = true;
    while (end < text.size() && first.value != kInvalidByte) {
      const Utf8Char next = read_utf8(text, end);
      if (starts_segment(next.value)) break;
      end += next.num_bytes;
      single = false;
    }
    const bool stable = single && (first.value < first_unstable(form) || first.value == kInvalidByte);
    const std::string_view segment = text.substr(begin, end - begin);
    if (std::string normal; !stable && (normal = normalize_segment(segment, form)) != segment) {
      out.replace(begin, end, normal);
    }
    begin = end;
  }
}

}  // namespace gradmill
