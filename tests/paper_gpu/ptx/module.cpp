// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "paper_gpu/ptx/kernel.h"
#include "paper_gpu/ptx/parse.h"
#include "paper_gpu/ptx/syntax.h"

namespace gradmill::paper::ptx {
namespace {

template <class Map>
auto* find_in(Map& map, std::string_view name) {
  const auto found = map.find(std::string(name));
  return found == map.end() ? nullptr : &found->second;
}

// The values of a table, after '='.
void read_values(Cursor& cursor, std::byte* to, size_t bytes, uint32_t each) {
  const bool braces = cursor.take('{');
  for (size_t at = 0; at < bytes; at += each) {
    const Operand value = read_operand(cursor);
    if (!value.is_number()) throw std::runtime_error("a table holds something that is not a number");
    std::memcpy(to + at, &value.value, each);
    if (!cursor.take(',')) break;
  }
  if (braces) cursor.expect('}');
}

// Returns 90 for "sm_90a".
int target_of(std::string_view word) {
  size_t end = 3;
  while (end < word.size() && word[end] >= '0' && word[end] <= '9') ++end;
  return static_cast<int>(to_integer(word.substr(3, end - 3)));
}

// From the type on: ".align 4 .b8 name[12] = {…};".
struct Declaration {
  Variable variable;
  uint32_t element = 1;
  std::string_view name;
};
Declaration read_declaration(Cursor& cursor) {
  Declaration result;
  std::string_view word = cursor.word();
  while (word == ".align" || word == ".attribute") {
    result.variable.align = static_cast<uint32_t>(cursor.integer());
    word = cursor.word();
  }
  result.element = bytes_of(word.substr(1));
  result.variable.align = std::max(result.variable.align, result.element);
  result.name = cursor.word();
  result.variable.bytes = result.element;
  while (cursor.take('[')) {
    result.variable.bytes *= cursor.peek() == ']' ? 0 : static_cast<uint32_t>(cursor.integer());
    cursor.expect(']');
  }
  return result;
}

}  // namespace

Module::Module(std::string text) : text_(std::move(text)) {
  Cursor cursor(text_);
  bool is_extern = false;
  while (!cursor.at_end()) {
    const std::string_view word = cursor.word();
    if (word == ".visible" || word == ".weak" || word == ".extern") {
      is_extern = word == ".extern";
      continue;
    }
    if (word == ".target") {
      target_ = target_of(cursor.word());
      cursor.skip_line();
    } else if (word == ".file") {
      const auto number = static_cast<uint32_t>(cursor.integer());
      files_[number] = cursor.text_in_quotes();
      cursor.skip_line();
    } else if (word == ".shared" || word == ".global" || word == ".const") {
      read_variable(cursor, word == ".shared", is_extern);
    } else if (word == ".entry" || word == ".func") {
      read_function(cursor, word == ".entry");
    } else if (word == ".section") {
      cursor.word();
      cursor.skip_block();
    } else if (word == ".version" || word == ".address_size") {
      cursor.skip_line();
    } else {
      throw std::runtime_error(fmt::format("the PTX has '{}' where a function or variable begins", word));
    }
    is_extern = false;
  }
}

Module::~Module() = default;

void Module::read_variable(Cursor& cursor, bool shared, bool is_extern) {
  const Declaration declaration = read_declaration(cursor);
  if (shared) {
    Variable& variable = shared_[std::string(declaration.name)] = declaration.variable;
    variable.is_extern = is_extern;
  } else {
    Global& global = globals_[std::string(declaration.name)];
    global.size = declaration.variable.bytes;
    global.bytes = std::make_unique<std::byte[]>(global.size + kTableAlignment);
    if (cursor.take('=')) read_values(cursor, global.begin(), global.size, declaration.element);
  }
  cursor.skip_past(';');
}

// Keeps the text from the parameters on. Skips a declaration without a body.
void Module::read_function(Cursor& cursor, bool entry) {
  const char* begin = cursor.position();
  if (cursor.peek() == '(') cursor.skip_past(')');  // the return value
  const std::string_view name = cursor.word();
  if (entry) begin = cursor.position();
  if (cursor.take('(')) cursor.skip_past(')');
  while (cursor.peek() != '{') {
    if (cursor.take(';')) return;
    if (cursor.word().empty()) cursor.expect(',');  // directives and their numbers
  }
  cursor.skip_block();
  (entry ? entries_ : functions_)[std::string(name)] = {begin, static_cast<size_t>(cursor.position() - begin)};
}

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const auto& [name, text] : entries_) names.push_back(name);
  return names;
}

const Kernel& Module::kernel(std::string_view name) {
  std::unique_ptr<Kernel>& slot = parsed_[std::string(name)];
  if (slot == nullptr) {
    const std::string_view* const text = find_in(entries_, name);
    if (text == nullptr) throw std::runtime_error(fmt::format("the PTX has no kernel {}", name));
    slot = parse_kernel(*this, std::string(name), *text);
  }
  return *slot;
}

const std::string_view* Module::function(std::string_view name) const { return find_in(functions_, name); }
const Variable* Module::shared_variable(std::string_view name) const { return find_in(shared_, name); }

std::byte* Module::global_variable(std::string_view name) {
  Global* const global = find_in(globals_, name);
  return global != nullptr ? global->begin() : nullptr;
}

bool Module::holds(uint64_t address, uint32_t bytes) const {
  for (const auto& [name, global] : globals_) {
    const auto begin = reinterpret_cast<uint64_t>(global.begin());
    if (address >= begin && address + bytes <= begin + global.size) return true;
  }
  return false;
}

std::string_view Module::file(uint32_t number) const {
  const auto found = files_.find(number);
  return found == files_.end() ? std::string_view("?") : std::string_view(found->second);
}

}  // namespace gradmill::paper::ptx
