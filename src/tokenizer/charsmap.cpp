// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/charsmap.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "tokenizer/unicode.h"

namespace gradmill {
namespace {

// A unit of darts-clone contains a label and the offset to its children, or the value of a leaf.
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

constexpr size_t kMaxReplacement = 256;  // in bytes: keeps a map from inflating a text; real replacements are shorter
                                         // than 40

bool has_long_replacement(std::string_view replacements) {
  size_t begin = 0;
  while (begin < replacements.size()) {
    const size_t end = std::min(replacements.find('\0', begin), replacements.size());
    if (end - begin > kMaxReplacement) return true;
    begin = end + 1;
  }
  return false;
}

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {}

  void rewrite(Rewriter& out) const override {
    const std::string_view text = out.original();
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = cluster_end(text, begin);
      if (end - begin >= 6 || !replace(out, begin, end)) {
        for (size_t i = begin; i < end;) {
          const size_t next = i + read_utf8(text, i).num_bytes;
          replace(out, i, next);
          i = next;
        }
      }
      begin = end;
    }
  }

 private:
  // Replaces the whole part with the replacement of its first bytes.
  bool replace(Rewriter& out, size_t begin, size_t end) const {
    const std::string_view part = out.original().substr(begin, end - begin);
    const Charsmap::Match match = map_.find_first(part);
    if (match.num_bytes == 0) return false;
    if (match.replacement != part) out.replace(begin, end, match.replacement);
    return true;
  }

  static size_t cluster_end(std::string_view text, size_t begin) {
    const Utf8Char first = read_utf8(text, begin);
    size_t end = begin + first.num_bytes;
    auto last = static_cast<utf8proc_int32_t>(first.value);
    utf8proc_int32_t state = 0;
    while (end < text.size()) {
      const Utf8Char next = read_utf8(text, end);
      if (last < 0 || next.value == kInvalidByte) break;
      const auto point = static_cast<utf8proc_int32_t>(next.value);
      if (utf8proc_grapheme_break_stateful(last, point, &state)) break;
      last = point;
      end += next.num_bytes;
    }
    return end;
  }

  Charsmap map_;
};

}  // namespace

Charsmap::Charsmap(std::string_view bytes, std::string_view where) {
  if (bytes.empty()) return;
  uint32_t num_trie_bytes = 0;
  if (bytes.size() >= 4) std::memcpy(&num_trie_bytes, bytes.data(), 4);
  if (bytes.size() < 8 || num_trie_bytes > bytes.size() - 4 || num_trie_bytes % 4 != 0 || num_trie_bytes == 0 ||
      has_long_replacement(bytes.substr(4 + num_trie_bytes))) {
    throw data_error(fmt::format("{}: the precompiled normalisation is cut short or damaged", where),
                     "fetch or make the file again");
  }
  units_.resize(num_trie_bytes / 4);
  std::memcpy(units_.data(), bytes.data() + 4, num_trie_bytes);
  replacements_ = bytes.substr(4 + num_trie_bytes);
}

Charsmap::Match Charsmap::find(std::string_view text, bool longest) const {
  Match match;
  if (units_.empty()) return match;
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    // A damaged map may contain any offset. Leaving the array ends the search.
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) break;
    const size_t begin = value_of(units_[node]);
    if (begin > replacements_.size()) break;
    const size_t end = replacements_.find('\0', begin);
    match = {i + 1, std::string_view(replacements_).substr(begin, end == std::string::npos ? end : end - begin)};
    if (!longest) break;
  }
  return match;
}

std::unique_ptr<const Normalizer> make_precompiled(Charsmap map) {
  return std::make_unique<Precompiled>(std::move(map));
}

}  // namespace gradmill
