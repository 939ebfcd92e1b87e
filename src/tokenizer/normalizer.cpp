// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
constexpr char32_t kFirstUnstable = 0x300;  // every character below is in NFC whatever comes before it

// Whether nothing before this character can combine with it. Marks can, and the vowels and finals of Hangul.
bool starts_segment(char32_t c) {
  if (c < kFirstUnstable || c == kInvalidByte) return true;
  if ((c >= 0x1160 && c <= 0x11FF) || utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class != 0) {
    return false;
  }
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category != UTF8PROC_CATEGORY_MN && category != UTF8PROC_CATEGORY_MC && category != UTF8PROC_CATEGORY_ME;
}

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// utf8proc's own reordering is quadratic in the number of marks on one character, so we decompose and sort here.
std::string compose(std::string_view segment) {
  std::vector<utf8proc_int32_t> points;
  for (size_t i = 0; i < segment.size();) {
    const Utf8Char c = read_utf8(segment, i);
    std::array<utf8proc_int32_t, 32> parts;
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value), parts.data(), parts.size(),
                                               UTF8PROC_DECOMPOSE, &boundary);
    points.insert(points.end(), parts.begin(), parts.begin() + std::clamp<ptrdiff_t>(count, 0, parts.size()));
    i += c.num_bytes;
  }
  for (auto first = points.begin(); first != points.end();) {
    const auto starter = [](utf8proc_int32_t c) { return combining_class(c) == 0; };
    first = std::find_if_not(first, points.end(), starter);
    const auto last = std::find_if(first, points.end(), starter);
    std::stable_sort(first, last, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    first = last;
  }
  const auto size = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()), kCompose);
  std::string text;
  for (ptrdiff_t i = 0; i < size; ++i) append_code_point(text, static_cast<char32_t>(points[static_cast<size_t>(i)]));
  return text;
}

}  // namespace

const NormalizedText::Change* NormalizedText::last_change_from(size_t position) const {
  const auto after = std::upper_bound(changes_.begin(), changes_.end(), position,
                                      [](size_t p, const Change& change) { return p < change.begin; });
  return after == changes_.begin() ? nullptr : &*(after - 1);
}

size_t NormalizedText::original_begin(size_t position) const {
  const Change* change = last_change_from(position);
  if (change == nullptr) return position;
  return position < change->end ? change->original_begin : position - change->end + change->original_end;
}

size_t NormalizedText::original_end(size_t position) const {
  // The end belongs to the byte before it.
  const Change* change = position == 0 ? nullptr : last_change_from(position - 1);
  if (change == nullptr) return position;
  return position <= change->end ? change->original_end : position - change->end + change->original_end;
}

void NormalizedText::keep(std::string_view part) {
  text_ += part;
  num_original_ += part.size();
}

void NormalizedText::change(std::string_view from, std::string_view to) {
  changes_.push_back({text_.size(), text_.size() + to.size(), num_original_, num_original_ + from.size()});
  text_ += to;
  num_original_ += from.size();
}

std::optional<NormalizedText> normalize_nfc(std::string_view text) {
  std::optional<NormalizedText> result;
  size_t kept = 0;  // up to here the result, once there is one, is complete
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
    const bool stable = single && (first.value < kFirstUnstable || first.value == kInvalidByte);
    const std::string_view segment = text.substr(begin, end - begin);
    if (std::string composed; !stable && (composed = compose(segment)) != segment) {
      if (!result) result.emplace();
      result->keep(text.substr(kept, begin - kept));
      result->change(segment, composed);
      kept = end;
    }
    begin = end;
  }
  if (result) result->keep(text.substr(kept));
  return result;
}

}  // namespace gradmill
