// SPDX-License-Identifier: Apache-2.0
#include "data/labelled/words.h"

#include <algorithm>

namespace gradmill {
namespace {

std::string_view take_until(std::string_view& text, size_t position) {
  const std::string_view taken = text.substr(0, position);
  text.remove_prefix(taken.size());
  return taken;
}

}  // namespace

WordList split_words(std::string_view text) {
  WordList list;
  list.leading = take_until(text, text.find_first_not_of(kBlanks));
  while (!text.empty()) {
    Word& word = list.words.emplace_back();
    word.text = take_until(text, text.find_first_of(kBlanks));
    word.separator = take_until(text, text.find_first_not_of(kBlanks));
  }
  return list;
}

std::string join_words(const WordList& list) {
  std::string text = list.leading;
  for (const Word& word : list.words) text.append(word.text).append(word.separator);
  return text;
}

std::string ascii_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace gradmill
