// SPDX-License-Identifier: Apache-2.0
// Comparisons, with results in predicates or registers.
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/lanes.h"
#include "paper_gpu/ptx/short_floats.h"

namespace gradmill::paper::ptx {

// An fp32 number with subnormal values flushed to zero.
struct WithoutSubnormals {
  float value;
  float number() const { return flushed(value); }
};

namespace {

struct Equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {  // for numbers: false for a NaN
  template <class T>
  bool operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return a != b;
    } else {
      return a < b || a > b;
    }
  }
};
struct Less {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessOrEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterOrEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct AreNumbers {
  template <class T>
  bool operator()(T a, T b) const {
    return a == a && b == b;
  }
};
template <class F>
struct Not {
  template <class T>
  bool operator()(T a, T b) const {
    return !F()(a, b);
  }
};

template <class T>
float number(T value) {
  return value.number();
}
template <class T>
requires std::is_arithmetic_v<T> T number(T value) { return value; }

// flags: how the result is combined with another predicate.
enum Combination : uint8_t { kAlone, kAnd = 8, kOr = 16, kXor = 24, kCombinations = 24 };

uint32_t combined(const Warp& warp, const Instruction& i, uint32_t result) {
  if ((i.flags & kCombinations) == kAlone) return result;
  const uint32_t other = predicate_of(warp, i.c, i.flags & kNegatedPredicate);
  switch (i.flags & kCombinations) {
    case kAnd:
      return result & other;
    case kOr:
      return result | other;
    default:
      return result ^ other;
  }
}

template <class T, class F>
uint32_t compared(Warp& warp, const Instruction& i) {
  const auto *const a = warp.at<SlotOf<T>>(i.a), *const b = warp.at<SlotOf<T>>(i.b);
  uint32_t result = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    result |= static_cast<uint32_t>(F()(number(unpack<T>(a[lane])), number(unpack<T>(b[lane])))) << lane;
  }
  return result;
}

template <class T, class F>
void set_predicates(Warp& warp, const Instruction& i, uint32_t mask) {
  const uint32_t result = compared<T, F>(warp, i);
  const uint32_t first = combined(warp, i, result), second = combined(warp, i, ~result);
  set_predicate(warp, i.d, mask, first);
  set_predicate(warp, i.e, mask, second);
}
// offset: the register's value if the comparison is true.
template <class T, class F>
void set_register(Warp& warp, const Instruction& i, uint32_t mask) {
  const uint32_t result = combined(warp, i, compared<T, F>(warp, i)), yes = static_cast<uint32_t>(i.offset);
  for_lanes(warp.at<uint32_t>(i.d), mask, [&](int lane) { return result >> lane & 1 ? yes : 0; });
}
// Compares two packed 16-bit values: one predicate per half.
template <class T, class F>
void set_predicates_by_pairs(Warp& warp, const Instruction& i, uint32_t mask) {
  const auto *const a = warp.at<uint32_t>(i.a), *const b = warp.at<uint32_t>(i.b);
  const auto half = [&](int shift) {
    uint32_t result = 0;
    for_each_lane(mask, [&](int lane) {
      const T x = unpack<T>(a[lane] >> shift), y = unpack<T>(b[lane] >> shift);
      result |= static_cast<uint32_t>(F()(x.number(), y.number())) << lane;
    });
    return result;
  };
  const uint32_t low = combined(warp, i, half(0)), high = combined(warp, i, half(16));
  set_predicate(warp, i.d, mask, low);
  set_predicate(warp, i.e, mask, high);
}

// Calls visit(F()) for the comparison with this name; false if there is none.
template <class T, class Visit>
bool with_comparison(std::string_view name, Visit&& visit) {
  if (name == "eq") return visit(Equal());
  if (name == "ne") return visit(NotEqual());
  if (name == "lt" || name == "lo") return visit(Less());
  if (name == "le" || name == "ls") return visit(LessOrEqual());
  if (name == "gt" || name == "hi") return visit(Greater());
  if (name == "ge" || name == "hs") return visit(GreaterOrEqual());
  if constexpr (!std::is_integral_v<T>) {
    if (name == "equ") return visit(Not<NotEqual>());
    if (name == "neu") return visit(Not<Equal>());
    if (name == "ltu") return visit(Not<GreaterOrEqual>());
    if (name == "leu") return visit(Not<Greater>());
    if (name == "gtu") return visit(Not<LessOrEqual>());
    if (name == "geu") return visit(Not<Less>());
    if (name == "num") return visit(AreNumbers());
    if (name == "nan") return visit(Not<AreNumbers>());
  }
  return false;
}

enum class Result : uint8_t { predicates, pairs, reg };

template <class T>
Handler handler_of(std::string_view name, Result result) {
  Handler found = nullptr;
  with_comparison<T>(name, [&]<class F>(F) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Brain>) {
      if (result == Result::pairs) found = set_predicates_by_pairs<T, F>;
    }
    if (result == Result::predicates) found = set_predicates<T, F>;
    if (result == Result::reg) found = set_register<T, F>;
    return true;
  });
  return found;
}

Handler handler_of_type(const Statement& s, bool to_register) {
  const std::string_view name = s.parts.at(1), type = s.type();
  const Result result = to_register ? Result::reg : type.ends_with("x2") ? Result::pairs : Result::predicates;
  if (to_register && type.ends_with("x2")) return nullptr;
  if (s.has("ftz")) return type == "f32" ? handler_of<WithoutSubnormals>(name, result) : nullptr;
  if (type == "f16" || type == "f16x2") return handler_of<Half>(name, result);
  if (type == "bf16" || type == "bf16x2") return handler_of<Brain>(name, result);
  Handler found = nullptr;
  with_type(type, [&]<class T>(T) {
    found = handler_of<T>(name, result);
    return true;
  });
  return found;
}

// Reads the operands, and the predicate that the result is combined with.
void read_operands(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  const bool wide = bytes_of(s.type()) == 8;
  decoder.read(kA, decoder.operand(1), wide);
  decoder.read(kB, decoder.operand(2), wide);
  const bool combines = s.has("and") || s.has("or") || s.has("xor");
  if (decoder.size() != (combines ? 4 : 3)) throw std::runtime_error("a comparison with a wrong number of operands");
  if (!combines) return;
  decoder.predicate(i.c, decoder.operand(3));
  if (decoder.operand(3).negated) i.flags |= kNegatedPredicate;
  i.flags |= s.has("and") ? kAnd : s.has("or") ? kOr : kXor;
}

bool decode_setp(Decoder& decoder) {
  const Statement& s = decoder.s;
  Instruction& i = decoder.i;
  decoder.expect(decoder.size(), {s.parts.at(1), "and", "or", "xor", "ftz"});
  i.run = handler_of_type(s, false);
  const Operand& result = decoder.operand(0);
  decoder.predicate(i.d, result);
  if (!result.second.empty() && result.second != "_") {
    Operand second;
    second.kind = Operand::Kind::name;
    second.name = result.second;
    decoder.predicate(i.e, second);
  }
  read_operands(decoder);
  return i.run != nullptr;
}

// Sets a register to 0, or to 1.0 or all ones.
bool decode_set(Decoder& decoder) {
  const Statement& s = decoder.s;
  const std::string_view to = s.parts.at(s.parts.size() - 2);
  if (to != "f32" && to != "u32" && to != "s32") return false;
  decoder.expect(decoder.size(), {s.parts.at(1), "and", "or", "xor", "ftz", to});
  decoder.i.run = handler_of_type(s, true);
  decoder.i.offset = to == "f32" ? 0x3f800000 : 0xffffffff;
  decoder.write(kD, decoder.operand(0), false);
  read_operands(decoder);
  return decoder.i.run != nullptr;
}

}  // namespace

bool decode_compare(Decoder& decoder) {
  if (decoder.s.parts[0] == "setp") return decode_setp(decoder);
  return decoder.s.parts[0] == "set" && decode_set(decoder);
}

}  // namespace gradmill::paper::ptx
