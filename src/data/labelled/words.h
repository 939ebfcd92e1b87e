// SPDX-License-Identifier: Apache-2.0
// Words of a text: what lies between blanks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gradmill {

inline constexpr std::string_view kBlanks = " \t\r\n\v\f";

struct Word {
  std::string text;       // never empty
  std::string separator;  // the blanks behind it
};

struct WordList {
  std::string leading;  // blanks before the first word
  std::vector<Word> words;
};

// join_words() gives the text back as it was.
WordList split_words(std::string_view text);
std::string join_words(const WordList& list);

std::string ascii_lower(std::string_view text);

}  // namespace gradmill
