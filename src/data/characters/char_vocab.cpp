// SPDX-License-Identifier: Apache-2.0
#include "data/characters/char_vocab.h"

#include <algorithm>
#include <cassert>

#include "core/error.h"
#include "core/utf8.h"

namespace gradmill {
namespace {

// Calls visit(code point, byte offset) for every character.
template <class Visit>
void for_each_character(std::string_view utf8, Visit&& visit) {
  for (size_t at = 0; at < utf8.size();) {
    const auto point = decode_utf8(utf8.substr(at));
    if (!point) throw data_error(fmt::format("invalid UTF-8 at byte {} of the text", at), "convert it to UTF-8");
    visit(point->value, at);
    at += point->num_bytes;
  }
}

}  // namespace

CharVocab CharVocab::from_text(std::string_view utf8) {
  if (utf8.empty()) throw data_error("no vocabulary from an empty text", "give a text with at least one character");
  std::vector<bool> seen(0x110000);
  for_each_character(utf8, [&](char32_t point, size_t) { seen[point] = true; });
  CharVocab vocab;
  vocab.ascii_.fill(-1);
  for (char32_t point = 0; point < seen.size(); ++point) {
    if (!seen[point]) continue;
    if (point < vocab.ascii_.size()) vocab.ascii_[point] = static_cast<int32_t>(vocab.size());
    vocab.code_points_.push_back(point);
  }
  return vocab;
}

int32_t CharVocab::find(char32_t code_point) const {
  if (code_point < ascii_.size()) return ascii_[code_point];
  const auto at = std::ranges::lower_bound(code_points_, code_point);
  if (at == code_points_.end() || *at != code_point) return -1;
  return static_cast<int32_t>(at - code_points_.begin());
}

std::string CharVocab::characters() const {
  std::string text;
  for (char32_t point : code_points_) append_utf8(text, point);
  return text;
}

std::vector<int32_t> CharVocab::encode(std::string_view utf8) const {
  std::vector<int32_t> ids;
  ids.reserve(utf8.size());
  for_each_character(utf8, [&](char32_t point, size_t at) {
    const int32_t id = find(point);
    if (id < 0) {
      std::string character;
      if (point >= 0x20 && point != 0x7f) append_utf8(character, point);
      throw data_error(fmt::format("character '{}' (U+{:04X}) at byte {} is not in the vocabulary", character,
                                   static_cast<uint32_t>(point), at),
                       "use characters of the training text only");
    }
    ids.push_back(id);
  });
  return ids;
}

std::string CharVocab::decode(std::span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (int32_t id : ids) {
    assert(id >= 0 && id < size());
    append_utf8(text, code_points_[static_cast<size_t>(id)]);
  }
  return text;
}

}  // namespace gradmill
