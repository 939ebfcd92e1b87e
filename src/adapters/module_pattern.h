// SPDX-License-Identifier: Apache-2.0
// ModulePattern: a regular expression over the names of modules, as in adapter configs. Matching takes time linear in
// the length of the name for any expression, because expressions come from untrusted files.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradmill {

class ModulePattern {
 public:
  // Supports literals, ., [..], \d \w \s (and capitals), groups, |, * + ? {m,n}, lazy or not, ^ and $. Throws a data
  // error that begins with `where` if the expression is wrong, too large, or uses anything else (look-around, back
  // references).
  ModulePattern(std::string_view expression, std::string_view where);

  // Like Python's re.fullmatch.
  bool matches(std::string_view name) const;

 private:
  friend class PatternParser;
  using CharSet = std::bitset<256>;
  enum class Kind : uint8_t { characters, split, begin, end, accept };
  // A state of the automaton; `next` and `other` are its successors.
  struct State {
    Kind kind = Kind::accept;
    CharSet set;
    int32_t next = -1, other = -1;
  };

  // Marks `state` and all states reachable from it without reading a character.
  void follow(int32_t state, size_t at, size_t size, std::vector<bool>& marked, std::vector<int32_t>& pending) const;

  std::vector<State> states_;
  int32_t start_ = -1;
};

}  // namespace gradmill
