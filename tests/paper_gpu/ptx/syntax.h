// SPDX-License-Identifier: Apache-2.0
// Splits PTX text into words, operands and statements.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace gradmill::paper::ptx {

// A position in the text. Comments count as white space.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool at_end();
  char peek();  // after white space; 0 at the end
  bool take(char c);
  void expect(char c);
  // Letters, digits, '_', '$', '%', '.' and "::"; may be empty.
  std::string_view word();
  std::string_view text_in_quotes();
  int64_t integer();
  void skip_past(char c);
  void skip_line();
  const char* position() const { return at_; }
  void go_back_to(const char* position) { at_ = position; }
  // Moves past the closing brace that matches the one here.
  void skip_block();

 private:
  void skip_space();

  const char *at_, *end_;
};

int64_t to_integer(std::string_view text);

struct Operand {
  enum class Kind : uint8_t { sink, name, integer, float32, float64, list, address };
  Kind kind = Kind::sink;
  bool negated = false;        // !p
  std::string_view name;       // of a register, variable, label or function
  std::string_view second;     // of d|p
  uint64_t value = 0;          // of a number; floats as their bits
  int64_t offset = 0;          // name+8
  std::vector<Operand> parts;  // elements of a list; for an address its base and, for a tensor map, its coordinates

  bool is_number() const { return kind == Kind::integer || kind == Kind::float32 || kind == Kind::float64; }
};

Operand read_operand(Cursor& cursor);

// The text between two semicolons.
struct Statement {
  std::string_view guard;
  bool guard_negated = false;
  std::string_view name;                // including its modifiers
  std::vector<std::string_view> parts;  // the parts of the name, separated by dots
  std::vector<Operand> operands;
  uint32_t file = 0, line = 0;

  bool has(std::string_view modifier) const;
  std::string_view type() const { return parts.back(); }
};

Statement read_statement(Cursor& cursor);

// The bytes of a type, 0 for predicates; throws for others.
uint32_t bytes_of(std::string_view type);

}  // namespace gradmill::paper::ptx
