// SPDX-License-Identifier: Apache-2.0
// Splits a text into words at blanks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gradmill {

inline constexpr std::string_view kBlanks = " \t\r\n\v\f";

struct Word {
  std::string text;       // never empty
  std::string separator;  // the blanks after it
};

struct WordList {
  std::string leading;  // the blanks before the first word
  std::vector<Word> words;
};

// join_words() restores the text exactly.
WordList split_words(std::string_view text);
std::string join_words(const WordList& list);

std::string ascii_lower(std::string_view text);

}  // namespace gradmill
