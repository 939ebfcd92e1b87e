// SPDX-License-Identifier: Apache-2.0
// Test sets, and a tokenizer whose tokens are words.
#pragma once

#include <fmt/format.h>

#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/labelled/encoded_set.h"

namespace gradmill::test {

// "w7" is 107; the ids of other words depend on their letters. Refuses "!".
class WordTokenizer : public Tokenizer {
 public:
  static constexpr TokenId kPad = 0, kFirst = 1, kLast = 2, kMask = 3, kUnknown = 4;

  Encoding encode(std::string_view text, const EncodeOptions&) const override {
    Encoding encoding;
    std::istringstream words{std::string(text)};
    for (std::string word; words >> word;) {
      if (word == "!") throw data_error("no token for '!'", "remove it");
      encoding.ids.push_back(word[0] == 'w' ? 100 + std::stoi(word.substr(1)) : letters(word));
    }
    return encoding;
  }
  std::string decode(std::span<const TokenId>, const DecodeOptions&) const override { return ""; }
  int64_t vocab_size() const override { return 1 << 24; }
  std::optional<std::string> token(TokenId) const override { return std::nullopt; }
  std::optional<TokenId> id(std::string_view) const override { return std::nullopt; }
  const SequenceTemplate& sequence_template() const override { return form_; }

 private:
  using Kind = SequenceTemplate::Piece::Kind;
  static TokenId letters(const std::string& word) {
    return std::accumulate(word.begin(), word.end(), 1 << 20,
                           [](int sum, char c) { return (sum * 31 + c) & 0x7fffff; });
  }

  SequenceTemplate form_{{{Kind::token, 0, kFirst}, {Kind::first, 0, 0}, {Kind::token, 0, kLast}},
                         {{Kind::token, 0, kFirst},
                          {Kind::first, 0, 0},
                          {Kind::token, 0, kLast},
                          {Kind::second, 1, 0},
                          {Kind::token, 1, kLast}}};
};

// "w0 w1 ... w(count - 1)"
inline std::string words(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += fmt::format("{}w{}", i == 0 ? "" : " ", i);
  return text;
}

// Texts with these numbers of words; example i has the class i % num_classes.
inline LabelledSet set_of_lengths(const std::vector<int64_t>& lengths, int32_t num_classes = 2) {
  LabelledSet set;
  set.files = {"memory"};
  std::vector<std::string> names;
  for (int32_t id = 0; id < num_classes; ++id) names.push_back(fmt::format("class {}", id));
  set.labels = LabelMap(names);
  for (const int64_t length : lengths) {
    LabelledExample& example = set.examples.emplace_back();
    example.first = words(length);
    example.label = static_cast<int32_t>(set.size() - 1) % num_classes;
    example.line = set.size();
  }
  return set;
}

}  // namespace gradmill::test
