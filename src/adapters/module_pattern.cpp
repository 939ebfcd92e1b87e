// SPDX-License-Identifier: Apache-2.0
// Thompson's construction: the expression becomes an automaton, and all its paths read a name at once.
#include "adapters/module_pattern.h"

#include <optional>

#include "core/error.h"

namespace gradmill {
namespace {

constexpr size_t kMaxStates = 4000, kMaxEmits = 20000, kMaxDepth = 50;
constexpr int kMaxRepeats = 1000;

}  // namespace

// Recursive descent. Parts are built back to front: make(part, next) appends states that continue at `next`.
class PatternParser {
 public:
  using State = ModulePattern::State;
  using Kind = ModulePattern::Kind;
  using CharSet = ModulePattern::CharSet;

  PatternParser(std::string_view text, std::string_view where, std::vector<State>& states)
      : text_(text), where_(where), states_(states) {}

  int32_t build() {
    Node root = alternatives(0);
    if (at_ != text_.size()) throw bad("an unmatched ')'");
    return emit(root, add({Kind::accept}));
  }

 private:
  struct Node {
    enum class Kind : uint8_t { characters, sequence, alternatives, repeat, begin, end } kind;
    CharSet set;
    std::vector<Node> parts;
    int least = 0, most = 0;  // most -1: any number
  };

  Error bad(std::string_view what) const {
    return data_error(fmt::format("{}: the pattern has {} at character {}", where_, what, at_),
                      "write the modules' names as a list instead");
  }
  bool done() const { return at_ >= text_.size(); }
  char peek() const { return text_[at_]; }
  bool take(char c) {
    if (done() || peek() != c) return false;
    ++at_;
    return true;
  }

  Node alternatives(size_t depth) {
    if (depth > kMaxDepth) throw bad("groups nested too deeply");
    Node node{.kind = Node::Kind::alternatives};
    do {
      node.parts.push_back(sequence(depth));
    } while (take('|'));
    return node;
  }

  Node sequence(size_t depth) {
    Node node{.kind = Node::Kind::sequence};
    while (!done() && peek() != '|' && peek() != ')') node.parts.push_back(repeated(atom(depth)));
    return node;
  }

  Node atom(size_t depth) {
    const char c = text_[at_++];
    switch (c) {
      case '(':
        return group(depth);
      case '[':
        return {.kind = Node::Kind::characters, .set = bracket()};
      case '.':
        return {.kind = Node::Kind::characters, .set = ~one('\n')};
      case '^':
        return {.kind = Node::Kind::begin};
      case '$':
        return {.kind = Node::Kind::end};
      case '\\':
        return {.kind = Node::Kind::characters, .set = escape()};
      case '*':
      case '+':
      case '?':
        throw bad("nothing to repeat");
      default:
        return {.kind = Node::Kind::characters, .set = one(c)};
    }
  }

  Node group(size_t depth) {
    if (take('?') && !take(':')) throw bad("a kind of group that is not supported");
    Node node = alternatives(depth + 1);
    if (!take(')')) throw bad("a group that is not closed");
    return node;
  }

  Node repeated(Node part) {
    const size_t begin = at_;
    int least = 0, most = -1;
    if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (!done() && peek() == '{') {
      if (!counts(least, most)) {
        // Python takes a brace without a valid count literally.
        at_ = begin;
        return part;
      }
    } else if (!take('*')) {
      return part;
    }
    take('?');  // lazy and greedy match the same names
    if (!done() && (peek() == '*' || peek() == '+' || peek() == '{')) throw bad("a repetition of a repetition");
    if (part.kind == Node::Kind::begin || part.kind == Node::Kind::end) throw bad("nothing to repeat");
    Node node{.kind = Node::Kind::repeat, .least = least, .most = most};
    node.parts.push_back(std::move(part));
    return node;
  }

  // {m}, {m,}, {,n} or {m,n}.
  bool counts(int& least, int& most) {
    ++at_;
    const std::optional<int> first = number();
    const bool comma = take(',');
    const std::optional<int> second = comma ? number() : first;
    if (!take('}') || (!first && !second)) return false;
    least = first.value_or(0);
    most = comma && !second ? -1 : *second;
    if (most >= 0 && most < least) throw bad("a repetition with its bounds in the wrong order");
    return true;
  }

  std::optional<int> number() {
    if (done() || peek() < '0' || peek() > '9') return std::nullopt;
    int value = 0;
    while (!done() && peek() >= '0' && peek() <= '9') {
      value = 10 * value + (text_[at_++] - '0');
      if (value > kMaxRepeats) throw bad("too many repetitions");
    }
    return value;
  }

  static CharSet one(char c) {
    CharSet set;
    set.set(static_cast<uint8_t>(c));
    return set;
  }
  static CharSet range(uint8_t first, uint8_t last) {
    CharSet set;
    for (size_t c = first; c <= last; ++c) set.set(c);
    return set;
  }
  static CharSet digits() { return range('0', '9'); }
  static CharSet word() { return digits() | range('a', 'z') | range('A', 'Z') | one('_'); }
  static CharSet space() { return range('\t', '\r') | one(' '); }

  CharSet escape() {
    if (done()) throw bad("a backslash without a character after it");
    const char c = text_[at_++];
    switch (c) {
      case 'd':
        return digits();
      case 'D':
        return ~digits();
      case 'w':
        return word();
      case 'W':
        return ~word();
      case 's':
        return space();
      case 'S':
        return ~space();
      case 'n':
        return one('\n');
      case 't':
        return one('\t');
      default:
        if (word().test(static_cast<uint8_t>(c))) throw bad("an escape that is not supported");
        return one(c);
    }
  }

  CharSet bracket() {
    const bool negated = take('^');
    CharSet set;
    for (bool first = true; first || done() || peek() != ']'; first = false) {
      if (done()) throw bad("a set of characters that is not closed");
      const bool escaped = take('\\');
      if (escaped) {
        set |= escape();
        continue;
      }
      const char low = text_[at_++];
      if (at_ + 1 < text_.size() && peek() == '-' && text_[at_ + 1] != ']' && text_[at_ + 1] != '\\') {
        const char high = text_[at_ + 1];
        if (static_cast<uint8_t>(high) < static_cast<uint8_t>(low)) throw bad("a range in the wrong order");
        at_ += 2;
        set |= range(static_cast<uint8_t>(low), static_cast<uint8_t>(high));
      } else {
        set |= one(low);
      }
    }
    ++at_;
    return negated ? ~set : set;
  }

  int32_t add(State state) {
    if (states_.size() >= kMaxStates) throw bad("too many parts");
    states_.push_back(std::move(state));
    return static_cast<int32_t>(states_.size()) - 1;
  }

  int32_t emit(const Node& node, int32_t next) {
    // Repetitions of nothing create no states but take time.
    if (++num_emits_ > kMaxEmits) throw bad("too many parts");
    switch (node.kind) {
      case Node::Kind::characters:
        return add({Kind::characters, node.set, next});
      case Node::Kind::begin:
        return add({Kind::begin, {}, next});
      case Node::Kind::end:
        return add({Kind::end, {}, next});
      case Node::Kind::sequence:
        for (size_t i = node.parts.size(); i-- > 0;) next = emit(node.parts[i], next);
        return next;
      case Node::Kind::alternatives: {
        int32_t start = emit(node.parts.back(), next);
        for (size_t i = node.parts.size() - 1; i-- > 0;) {
          start = add({Kind::split, {}, emit(node.parts[i], next), start});
        }
        return start;
      }
      case Node::Kind::repeat:
        return emit_repeat(node, next);
    }
    return next;
  }

  int32_t emit_repeat(const Node& node, int32_t next) {
    const Node& part = node.parts.front();
    if (node.most < 0) {
      const int32_t loop = add({Kind::split, {}, -1, next});
      const int32_t body = emit(part, loop);
      states_[static_cast<size_t>(loop)].next = body;
      next = loop;
    } else {
      const int32_t out = next;
      for (int i = node.least; i < node.most; ++i) next = add({Kind::split, {}, emit(part, next), out});
    }
    for (int i = 0; i < node.least; ++i) next = emit(part, next);
    return next;
  }

  std::string_view text_, where_;
  std::vector<State>& states_;
  size_t at_ = 0, num_emits_ = 0;
};

ModulePattern::ModulePattern(std::string_view expression, std::string_view where) {
  start_ = PatternParser(expression, where, states_).build();
}

void ModulePattern::follow(int32_t state, size_t at, size_t size, std::vector<bool>& marked,
                           std::vector<int32_t>& pending) const {
  pending.push_back(state);
  while (!pending.empty()) {
    const int32_t index = pending.back();
    pending.pop_back();
    if (marked[static_cast<size_t>(index)]) continue;
    marked[static_cast<size_t>(index)] = true;
    const State& current = states_[static_cast<size_t>(index)];
    if (current.kind == Kind::split) {
      pending.push_back(current.other);
      pending.push_back(current.next);
    } else if ((current.kind == Kind::begin && at == 0) || (current.kind == Kind::end && at == size)) {
      pending.push_back(current.next);
    }
  }
}

bool ModulePattern::matches(std::string_view name) const {
  std::vector<bool> now(states_.size()), then(states_.size());
  std::vector<int32_t> pending;
  follow(start_, 0, name.size(), now, pending);
  for (size_t at = 0; at < name.size(); ++at) {
    then.assign(then.size(), false);
    for (size_t i = 0; i < states_.size(); ++i) {
      const State& state = states_[i];
      if (!now[i] || state.kind != Kind::characters || !state.set.test(static_cast<uint8_t>(name[at]))) continue;
      follow(state.next, at + 1, name.size(), then, pending);
    }
    now.swap(then);
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    if (now[i] && states_[i].kind == Kind::accept) return true;
  }
  return false;
}

}  // namespace gradmill
