// SPDX-License-Identifier: Apache-2.0
// ModulePattern: a regular expression over the names of modules, as adapter configs hold them. Matching takes time
// linear in the name, whatever the expression: it comes from files that nobody vouches for.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradmill {

class ModulePattern {
 public:
  // Literals, ., [..], \d \w \s (and capitals), groups, |, * + ? {m,n}, lazy or not, ^ and $. Throws a data error,
  // beginning with `where`, for what is wrong or beyond that (look-around, back references), and for giants.
  ModulePattern(std::string_view expression, std::string_view where);

  // Python's re.fullmatch.
  bool matches(std::string_view name) const;

 private:
  friend class PatternParser;
  using CharSet = std::bitset<256>;
  enum class Kind : uint8_t { characters, split, begin, end, accept };
  // A state of the automaton; `next` and `other` are where it goes on.
  struct State {
    Kind kind = Kind::accept;
    CharSet set;
    int32_t next = -1, other = -1;
  };

  // Marks `state` and what is reached from it without reading a character.
  void follow(int32_t state, size_t at, size_t size, std::vector<bool>& marked, std::vector<int32_t>& pending) const;

  std::vector<State> states_;
  int32_t start_ = -1;
};

}  // namespace gradmill
