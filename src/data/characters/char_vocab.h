// SPDX-License-Identifier: Apache-2.0
// CharVocab: numbers the characters (Unicode code points) of a text in code point order.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradmill {

class CharVocab {
 public:
  // Texts with the same set of characters give the same vocabulary. Throws a data_error if the text is empty or not
  // UTF-8.
  static CharVocab from_text(std::string_view utf8);

  int64_t size() const { return static_cast<int64_t>(code_points_.size()); }
  // All characters in the order of their numbers. from_text(characters()) gives this vocabulary again.
  std::string characters() const;

  // Throws a data_error for a character outside the vocabulary and for bytes that are not UTF-8.
  std::vector<int32_t> encode(std::string_view utf8) const;
  // Each id must be in [0, size()).
  std::string decode(std::span<const int32_t> ids) const;

 private:
  int32_t find(char32_t code_point) const;  // -1: unknown

  std::vector<char32_t> code_points_;
  std::array<int32_t, 128> ascii_;
};

}  // namespace gradmill
