// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/decode.h"

#include <fmt/format.h>

#include <algorithm>

#include "paper_gpu/ptx/exactness.h"

namespace gradmill::paper::ptx {

Slot& slot_at(Instruction& instruction, int32_t place) {
  switch (place) {
    case kD:
      return instruction.d;
    case kA:
      return instruction.a;
    case kB:
      return instruction.b;
    case kC:
      return instruction.c;
    case kE:
      return instruction.e;
    default:
      return instruction.list[static_cast<size_t>(place)];
  }
}

void Decoder::expect(size_t operands, std::initializer_list<std::string_view> modifiers) const {
  for (size_t n = 1; n + 1 < s.parts.size(); ++n) {
    if (std::find(modifiers.begin(), modifiers.end(), s.parts[n]) == modifiers.end()) {
      throw std::runtime_error(fmt::format("the paper GPU does not know .{} here", s.parts[n]));
    }
  }
  if (size() != operands) throw std::runtime_error(fmt::format("{} operands where {} are known", size(), operands));
}

bool Decoder::is_wide(const Operand& operand) const {
  if (operand.kind != Operand::Kind::name || !names_.is_register(operand.name)) return false;
  bool wide = false;
  names_.register_of(operand.name, wide);
  return wide;
}

void Decoder::read(int32_t place, const Operand& operand, bool wide) {
  if (operand.is_number()) {
    slot_at(i, place) = names_.constant(operand.value, wide);
    return;
  }
  if (operand.kind != Operand::Kind::name) throw std::runtime_error("an operand is not a value");
  if (!names_.is_register(operand.name)) {
    Space space = Space::generic;
    slot_at(i, place) = names_.address_of(operand.name, operand.offset, wide, space);
    return;
  }
  bool is_wide = false;
  last_ = names_.register_of(operand.name, is_wide);
  if (is_wide != wide) throw std::runtime_error(fmt::format("{} has another width", operand.name));
  names_.note({index_, place, last_, false});
}

void Decoder::write(int32_t place, const Operand& operand, bool wide) {
  if (operand.kind == Operand::Kind::sink) return;
  bool is_wide = false;
  last_ = names_.register_of(operand.name, is_wide);
  if (is_wide != wide) throw std::runtime_error(fmt::format("{} has another width", operand.name));
  names_.note({index_, place, last_, true});
}

void Decoder::read_any(int32_t place, const Operand& operand) { read(place, operand, is_wide(operand)); }

void Decoder::predicate(Slot& slot, const Operand& operand) {
  if (operand.kind == Operand::Kind::sink) return;
  slot = names_.predicate(operand.name);
}

void Decoder::push(const Operand& operand, bool wide, bool write) {
  i.list.push_back(kNoSlot);
  const auto place = static_cast<int32_t>(i.list.size() - 1);
  if (operand.kind == Operand::Kind::sink) return;
  write ? this->write(place, operand, wide) : read(place, operand, wide);
}

void Decoder::read_list(const Operand& operand, bool wide) {
  if (operand.kind != Operand::Kind::list) return push(operand, wide, false);
  for (const Operand& part : operand.parts) push(part, wide, false);
}

void Decoder::write_list(const Operand& operand, bool wide) {
  if (operand.kind != Operand::Kind::list) return push(operand, wide, true);
  for (const Operand& part : operand.parts) push(part, wide, true);
}

bool Decoder::address(int32_t place, const Operand& operand, int64_t& offset, Space& space) {
  const Operand& base = operand.kind == Operand::Kind::address ? operand.parts.at(0) : operand;
  if (base.is_number()) {
    slot_at(i, place) = names_.constant(base.value, true);
    return true;
  }
  offset = base.offset;
  if (names_.is_register(base.name)) {
    read_any(place, base);
    return is_wide(base);
  }
  slot_at(i, place) = names_.address_of(base.name, 0, true, space);
  return true;
}

void Decoder::all(bool wide) {
  constexpr int32_t kPlaces[] = {kA, kB, kC};
  write(kD, operand(0), wide);
  for (size_t n = 1; n < size(); ++n) {
    if (n > std::size(kPlaces)) throw std::runtime_error("too many operands");
    read(kPlaces[n - 1], operand(n), wide);
  }
}

bool decode(Decoder& decoder) {
  const std::string_view base = decoder.s.parts[0];
  // These are only hints for hardware.
  for (const std::string_view name : {"prefetch", "prefetchu", "discard", "applypriority", "pragma", "nanosleep",
                                      "setmaxnreg", "griddepcontrol", "brkpt"}) {
    if (base == name) return false;
  }
  if (decoder.s.name.starts_with("cp.async.bulk.prefetch")) return false;
  const bool known =
      decode_move(decoder) || decode_memory(decoder) || decode_compare(decoder) || decode_select(decoder) ||
      decode_convert(decoder) || decode_short_float(decoder) || decode_rounded_float(decoder) ||
      decode_special_float(decoder) || decode_float(decoder) || decode_integer(decoder) || decode_bits(decoder) ||
      decode_carry(decoder) || decode_atomic(decoder) || decode_bulk_copy(decoder) || decode_copy(decoder) ||
      decode_exchange(decoder) || decode_mbarrier(decoder) || decode_space(decoder) || decode_trap(decoder) ||
      decode_barrier(decoder) || decode_matrix(decoder) || decode_mma(decoder) || decode_products(decoder);
  if (!known) throw std::runtime_error(fmt::format("the paper GPU does not know the instruction {}", decoder.s.name));
  decoder.i.inexact = !is_exact(decoder.s);
  return true;
}

}  // namespace gradmill::paper::ptx
