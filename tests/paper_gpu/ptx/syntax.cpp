// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <stdexcept>

namespace gradmill::paper::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

// Reads 0f3F800000 or 0d3FF0000000000000.
bool read_float(std::string_view word, Operand& operand) {
  const bool single = word.size() == 10 && (word.starts_with("0f") || word.starts_with("0F"));
  const bool twice = word.size() == 18 && (word.starts_with("0d") || word.starts_with("0D"));
  if (!single && !twice) return false;
  operand.kind = single ? Operand::Kind::float32 : Operand::Kind::float64;
  std::from_chars(word.data() + 2, word.data() + word.size(), operand.value, 16);
  return true;
}

void read_list(Cursor& cursor, Operand& operand) {
  operand.kind = Operand::Kind::list;
  do operand.parts.push_back(read_operand(cursor));
  while (cursor.take(','));
  cursor.expect('}');
}

void read_address(Cursor& cursor, Operand& operand) {
  operand.kind = Operand::Kind::address;
  do operand.parts.push_back(read_operand(cursor));
  while (cursor.take(','));
  cursor.expect(']');
}

void read_number(Cursor& cursor, std::string_view word, bool negative, Operand& operand) {
  if (read_float(word, operand)) return;
  if (word.empty()) throw std::runtime_error(fmt::format("an operand is missing before '{}'", cursor.peek()));
  if (word.find('.') != std::string_view::npos) {  // a number like 1.0
    double number = 0;
    std::from_chars(word.data(), word.data() + word.size(), number);
    operand.kind = Operand::Kind::float64;
    operand.value = std::bit_cast<uint64_t>(negative ? -number : number);
    return;
  }
  operand.kind = Operand::Kind::integer;
  const auto value = static_cast<uint64_t>(to_integer(word));
  operand.value = negative ? 0 - value : value;
}

void read_name(Cursor& cursor, std::string_view word, Operand& operand) {
  operand.kind = word == "_" ? Operand::Kind::sink : Operand::Kind::name;
  operand.name = word;
  if (cursor.take('+')) {
    const bool negative = cursor.take('-');
    operand.offset = negative ? -cursor.integer() : cursor.integer();
  }
  if (cursor.take('|')) operand.second = cursor.word();
}

}  // namespace

void Cursor::skip_space() {
  while (at_ < end_) {
    if (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r') {
      ++at_;
    } else if (at_ + 1 < end_ && at_[0] == '/' && at_[1] == '/') {
      skip_line();
    } else {
      return;
    }
  }
}

bool Cursor::at_end() {
  skip_space();
  return at_ >= end_;
}

char Cursor::peek() {
  skip_space();
  return at_ < end_ ? *at_ : '\0';
}

bool Cursor::take(char c) {
  if (peek() != c) return false;
  ++at_;
  return true;
}

void Cursor::expect(char c) {
  if (take(c)) return;
  const auto shown = std::min<size_t>(40, static_cast<size_t>(end_ - at_));
  throw std::runtime_error(fmt::format("expected '{}' before: {}", c, std::string_view(at_, shown)));
}

std::string_view Cursor::word() {
  skip_space();
  const char* const begin = at_;
  while (at_ < end_) {
    if (in_word(*at_)) {
      ++at_;
    } else if (at_ + 1 < end_ && at_[0] == ':' && at_[1] == ':') {
      at_ += 2;
    } else {
      break;
    }
  }
  return {begin, static_cast<size_t>(at_ - begin)};
}

std::string_view Cursor::text_in_quotes() {
  expect('"');
  const char* const begin = at_;
  skip_past('"');
  return {begin, static_cast<size_t>(at_ - begin - 1)};
}

int64_t Cursor::integer() {
  const bool negative = take('-');
  const int64_t value = to_integer(word());
  return negative ? -value : value;
}

void Cursor::skip_past(char c) {
  while (at_ < end_ && *at_ != c) ++at_;
  if (at_ < end_) ++at_;
}

void Cursor::skip_line() {
  while (at_ < end_ && *at_ != '\n') ++at_;
}

void Cursor::skip_block() {
  expect('{');
  for (int depth = 1; depth > 0;) {
    const char c = peek();
    if (c == '\0') throw std::runtime_error("a brace is not closed");
    if (c == '"') {
      text_in_quotes();
      continue;
    }
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    ++at_;
  }
}

int64_t to_integer(std::string_view text) {
  if (text.ends_with('U')) text.remove_suffix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::runtime_error(fmt::format("'{}' is not a number", text));
  }
  return static_cast<int64_t>(value);
}

Operand read_operand(Cursor& cursor) {
  Operand operand;
  if (cursor.take('{')) {
    read_list(cursor, operand);
  } else if (cursor.take('[')) {
    read_address(cursor, operand);
  } else if (cursor.take('!')) {
    operand = read_operand(cursor);
    operand.negated = true;
  } else if (cursor.take('-')) {
    read_number(cursor, cursor.word(), true, operand);
  } else {
    const std::string_view word = cursor.word();
    if (word.empty() || is_digit(word[0])) {
      read_number(cursor, word, false, operand);
    } else {
      read_name(cursor, word, operand);
    }
  }
  return operand;
}

bool Statement::has(std::string_view modifier) const {
  return std::find(parts.begin(), parts.end(), modifier) != parts.end();
}

Statement read_statement(Cursor& cursor) {
  Statement statement;
  if (cursor.take('@')) {
    statement.guard_negated = cursor.take('!');
    statement.guard = cursor.word();
  }
  statement.name = cursor.word();
  for (size_t at = 0; at <= statement.name.size();) {
    const size_t dot = std::min(statement.name.find('.', at), statement.name.size());
    statement.parts.push_back(statement.name.substr(at, dot - at));
    at = dot + 1;
  }
  if (statement.parts[0] == "call") return statement;  // its operands are in parentheses
  while (!cursor.take(';')) {
    statement.operands.push_back(read_operand(cursor));
    cursor.take(',');
  }
  return statement;
}

uint32_t bytes_of(std::string_view type) {
  if (type == "pred") return 0;
  if (type == "f16" || type == "bf16" || type == "e4m3x2" || type == "e5m2x2") return 2;
  if (type == "f16x2" || type == "bf16x2" || type == "u16x2" || type == "s16x2" || type == "tf32") return 4;
  if (type.size() >= 2 && (type[0] == 'b' || type[0] == 'u' || type[0] == 's' || type[0] == 'f')) {
    const std::string_view bits = type.substr(1);
    if (bits == "8") return 1;
    if (bits == "16") return 2;
    if (bits == "32") return 4;
    if (bits == "64") return 8;
    if (bits == "128") return 16;
  }
  throw std::runtime_error(fmt::format("no type '{}'", type));
}

}  // namespace gradmill::paper::ptx
