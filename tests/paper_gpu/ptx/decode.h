// SPDX-License-Identifier: Apache-2.0
// Decodes a PTX statement to an instruction with its handler: one function per family of instructions. Each operand is
// described here once (read or written, 32 or 64 bits wide), and registers are assigned from that.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>

#include "paper_gpu/ptx/kernel.h"
#include "paper_gpu/ptx/syntax.h"

namespace gradmill::paper::ptx {

// What a statement does to one slot of the instruction.
struct Access {
  uint32_t instruction;
  int32_t place;  // the slot: see slot_at()
  uint32_t reg;   // a virtual register
  bool write;
};
enum Place : int32_t { kD = -5, kA, kB, kC, kE };  // from 0 on: index into the list
Slot& slot_at(Instruction& instruction, int32_t place);

// The parser's knowledge of names.
class Names {
 public:
  virtual ~Names() = default;
  virtual uint32_t register_of(std::string_view name, bool& wide) = 0;  // throws if there is none
  virtual bool is_register(std::string_view name) = 0;
  virtual bool is_predicate(std::string_view name) = 0;
  virtual Slot predicate(std::string_view name) = 0;
  virtual uint32_t fresh_register(bool wide) = 0;
  virtual Slot constant(uint64_t value, bool wide) = 0;
  // The address of a variable, as a constant, and its space.
  virtual Slot address_of(std::string_view name, int64_t offset, bool wide, Space& space) = 0;
  virtual void note(const Access& access) = 0;
};

// Fills in one instruction.
class Decoder {
 public:
  Decoder(Names& names, const Statement& statement, Instruction& instruction, uint32_t index)
      : names_(names), s(statement), i(instruction), index_(index) {}

  const Operand& operand(size_t n) const {
    if (n >= s.operands.size()) throw std::runtime_error("an operand is missing");
    return s.operands[n];
  }
  size_t size() const { return s.operands.size(); }
  // Throws unless there are exactly `operands` operands, and no other modifiers between the first part of the name and
  // the type.
  void expect(size_t operands, std::initializer_list<std::string_view> modifiers) const;

  // An operand of 32 (narrow) or 64 bits that is read or written.
  void read(int32_t place, const Operand& operand, bool wide);
  void write(int32_t place, const Operand& operand, bool wide);
  void update(int32_t place, const Operand& operand, bool wide) {  // read and written
    write(place, operand, wide);
    names_.note({index_, place, last_, false});
  }
  // As wide as the register; narrow for numbers.
  void read_any(int32_t place, const Operand& operand);
  bool is_wide(const Operand& operand) const;
  bool is_predicate(const Operand& operand) const { return names_.is_predicate(operand.name); }
  void predicate(Slot& slot, const Operand& operand);
  // The elements of a list (or the single operand) at the end of the instruction's list.
  void read_list(const Operand& operand, bool wide);
  void write_list(const Operand& operand, bool wide);
  // Puts the base register into `place` and the offset into `offset`. True if the base has 64 bits. May set `space` to
  // the variable's space.
  bool address(int32_t place, const Operand& operand, int64_t& offset, Space& space);
  // d, a, b, c of the same width.
  void all(bool wide);

 private:
  void push(const Operand& operand, bool wide, bool write);

  Names& names_;
  uint32_t last_ = 0;

 public:
  const Statement& s;
  Instruction& i;

 private:
  uint32_t index_;
};

// Each returns true if the family has the instruction. Throws if an operand is invalid.
bool decode_move(Decoder& decoder);
bool decode_trap(Decoder& decoder);
bool decode_space(Decoder& decoder);
bool decode_integer(Decoder& decoder);
bool decode_bits(Decoder& decoder);
bool decode_carry(Decoder& decoder);
bool decode_float(Decoder& decoder);
bool decode_rounded_float(Decoder& decoder);
bool decode_special_float(Decoder& decoder);
bool decode_short_float(Decoder& decoder);
bool decode_compare(Decoder& decoder);
bool decode_select(Decoder& decoder);
bool decode_convert(Decoder& decoder);
bool decode_packed_convert(Decoder& decoder);  // a part of decode_convert
bool decode_memory(Decoder& decoder);
bool decode_atomic(Decoder& decoder);
bool decode_copy(Decoder& decoder);
bool decode_bulk_copy(Decoder& decoder);
bool decode_exchange(Decoder& decoder);
bool decode_barrier(Decoder& decoder);
bool decode_mbarrier(Decoder& decoder);
bool decode_matrix(Decoder& decoder);
bool decode_mma(Decoder& decoder);
bool decode_products(Decoder& decoder);

// Throws if no family has the instruction. False: the instruction has no effect here and is omitted.
bool decode(Decoder& decoder);

}  // namespace gradmill::paper::ptx
