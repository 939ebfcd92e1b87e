// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/parse.h"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <stdexcept>
#include <unordered_map>

#include "paper_gpu/ptx/declarations.h"
#include "paper_gpu/ptx/decode.h"
#include "paper_gpu/ptx/module.h"
#include "paper_gpu/ptx/registers.h"
#include "paper_gpu/ptx/scope.h"
#include "paper_gpu/ptx/special.h"
#include "paper_gpu/ptx/syntax.h"

namespace gradmill::paper::ptx {
namespace {

constexpr uint32_t kNone = 0xffffffffu;

class Parser : public Names {
 public:
  Parser(Module& module, Kernel& kernel) : module_(module), kernel_(kernel) { scopes_.emplace_back(); }

  void parse(std::string_view text) {
    Cursor cursor(text);
    if (cursor.peek() == '(') parameters(cursor);
    directives(cursor);
    body(cursor, kNone);
    Instruction end;
    end.flow = Flow::exit;
    kernel_.code.push_back(std::move(end));
    resolve_jumps();
    place_dynamic_shared();
    registers_.assign(kernel_);
  }

  uint32_t register_of(std::string_view name, bool& wide) override {
    const uint32_t* const found = find_register(name);
    if (found == nullptr) throw std::runtime_error(fmt::format("no register {}", name));
    wide = registers_.is_wide(*found);
    return *found;
  }
  bool is_register(std::string_view name) override { return find_register(name) != nullptr; }
  bool is_predicate(std::string_view name) override { return find(name, &Scope::predicates) != nullptr; }
  Slot predicate(std::string_view name) override {
    if (const uint32_t* const found = find(name, &Scope::predicates)) return *found;
    if (name != kExplicitCluster) throw std::runtime_error(fmt::format("no predicate {}", name));
    kernel_.explicit_cluster = kernel_.num_predicates++;
    return scopes_[0].predicates[name] = kernel_.explicit_cluster;
  }
  uint32_t fresh_register(bool wide) override { return registers_.add(wide); }
  Slot constant(uint64_t value, bool wide) override {
    if (!wide) value = (value & 0xffffffffu) | value << 32;
    const auto [known, is_new] = constants_.try_emplace({value, wide}, kernel_.constants.size());
    if (is_new) {
      kernel_.constants.emplace_back();
      kernel_.constants.back().fill(value);
    }
    return static_cast<Slot>(known->second * sizeof(kernel_.constants[0])) | 1;
  }
  Slot address_of(std::string_view name, int64_t offset, bool wide, Space& space) override {
    const Symbol& symbol = find_symbol(name);
    if (space == Space::generic || (space == Space::param && symbol.space == Space::local)) space = symbol.space;
    if (symbol.table != nullptr) return constant(reinterpret_cast<uint64_t>(symbol.table) + uint64_t(offset), wide);
    if (!symbol.dynamic) return constant(static_cast<uint64_t>(symbol.at + offset), wide);
    // The value is known at the end. Until then it is a placeholder that differs from all constants.
    const auto [known, is_new] = dynamic_.try_emplace({offset, wide}, kernel_.constants.size());
    if (is_new) kernel_.constants.emplace_back();
    return static_cast<Slot>(known->second * sizeof(kernel_.constants[0])) | 1;
  }
  void note(const Access& access) override { registers_.note(access); }

 private:
  template <class Map>
  const uint32_t* find(std::string_view name, Map Scope::*map) const {
    for (int at = current_; at >= 0; at = scopes_[size_t(at)].parent) {
      const auto& names = scopes_[size_t(at)].*map;
      if (const auto found = names.find(name); found != names.end()) return &found->second;
    }
    return nullptr;
  }

  // Special registers are registered when they are first read.
  const uint32_t* find_register(std::string_view name) {
    if (const uint32_t* const found = find(name, &Scope::registers)) return found;
    const Special* const special = special_named(name);
    if (special == nullptr) return nullptr;
    const uint32_t reg = registers_.add(is_wide(*special));
    registers_.add_special(*special, reg);
    return &(scopes_[0].registers[name] = reg);
  }

  const Symbol& find_symbol(std::string_view name) {
    for (int at = current_; at >= 0; at = scopes_[size_t(at)].parent) {
      const auto& symbols = scopes_[size_t(at)].symbols;
      if (const auto found = symbols.find(name); found != symbols.end()) return found->second;
    }
    Symbol symbol;
    if (std::byte* const table = module_.global_variable(name)) {
      symbol.space = Space::global;
      symbol.table = table;
    } else if (const Variable* const shared = module_.shared_variable(name)) {
      symbol = shared_symbol(*shared);
    } else {
      throw std::runtime_error(fmt::format("no variable {}", name));
    }
    return scopes_[0].symbols[name] = symbol;
  }

  Symbol shared_symbol(const Variable& variable) {
    dynamic_align_ = std::max(dynamic_align_, variable.align);
    if (variable.is_extern || variable.bytes == 0) return {.space = Space::shared, .dynamic = true};
    return {.space = Space::shared, .at = place(kernel_.static_shared, variable)};
  }

  void parameters(Cursor& cursor) {
    cursor.expect('(');
    while (!cursor.take(')')) {
      if (cursor.word() != ".param") throw std::runtime_error("a parameter was expected");
      std::string_view name;
      const Variable variable = read_variable(cursor, name);
      const uint32_t at = place(kernel_.param_bytes, variable);
      kernel_.parameters.push_back({at, variable.bytes});
      scopes_[0].symbols[name] = {.space = Space::param, .at = at};
      cursor.take(',');
    }
  }

  void directives(Cursor& cursor) {
    while (!cursor.take('{')) {
      const std::string_view word = cursor.word();
      if (word == ".maxntid" || word == ".reqntid") {
        kernel_.max_threads = 1;
        do kernel_.max_threads *= static_cast<uint32_t>(cursor.integer());
        while (cursor.take(','));
      } else if (word == ".pragma") {
        cursor.skip_past(';');
      } else if (word.empty()) {
        cursor.expect(',');
      }
    }
  }

  // Parses up to the closing brace. `end`: where a return jumps in a function, kNone in a kernel.
  void body(Cursor& cursor, uint32_t end) {
    for (int depth = 1; depth > 0;) {
      const char c = cursor.peek();
      if (c == '{') {
        cursor.take('{');
        ++depth;
        scopes_.emplace_back().parent = current_;
        current_ = static_cast<int>(scopes_.size()) - 1;
      } else if (c == '}') {
        cursor.take('}');
        if (--depth > 0) current_ = scopes_[size_t(current_)].parent;
      } else if (c == ';') {
        cursor.take(';');
      } else if (c == '.') {
        declaration(cursor);
      } else if (!label(cursor)) {
        statement(cursor, end);
      }
    }
  }

  bool label(Cursor& cursor) {
    const char* const begin = cursor.position();
    if (cursor.peek() == '@') return false;
    const std::string_view word = cursor.word();
    if (word.empty()) cursor.expect(';');
    if (!cursor.take(':')) {
      cursor.go_back_to(begin);
      return false;
    }
    if (cursor.peek() == '.') {
      const char* const directive = cursor.position();
      if (cursor.word() == ".branchtargets") {
        scopes_[size_t(current_)].targets[word] = names_up_to(cursor, ';');
        return true;
      }
      cursor.go_back_to(directive);
    }
    scopes_[size_t(current_)].labels[word] = static_cast<uint32_t>(kernel_.code.size());
    return true;
  }

  void declaration(Cursor& cursor) {
    const std::string_view word = cursor.word();
    if (word == ".loc") {
      file_ = static_cast<uint32_t>(cursor.integer());
      line_ = static_cast<uint32_t>(cursor.integer());
      cursor.skip_line();
    } else if (word == ".reg") {
      declare_registers(cursor);
    } else if (word == ".shared") {
      std::string_view name;
      const Variable variable = read_variable(cursor, name);
      scopes_[size_t(current_)].symbols[name] = shared_symbol(variable);
    } else if (word == ".local" || word == ".param") {  // parameters of calls are memory of the thread
      std::string_view name;
      const Variable variable = read_variable(cursor, name);
      scopes_[size_t(current_)].symbols[name] = {.space = Space::local, .at = place(kernel_.local_bytes, variable)};
    } else {
      cursor.skip_past(word == ".pragma" ? ';' : '\n');
    }
  }

  void declare_registers(Cursor& cursor) {
    const uint32_t bytes = bytes_of(cursor.word().substr(1));
    do {
      const std::string_view name = cursor.word();
      if (!cursor.take('<')) {
        declare_register(name, bytes);
        continue;
      }
      const int64_t count = cursor.integer();
      cursor.expect('>');
      for (int64_t n = 0; n < count; ++n) declare_register(keep(fmt::format("{}{}", name, n)), bytes);
    } while (cursor.take(','));
  }

  void declare_register(std::string_view name, uint32_t bytes) {
    Scope& scope = scopes_[size_t(current_)];
    if (bytes == 0) {
      scope.predicates[name] = kernel_.num_predicates++;
    } else if (bytes <= 8) {
      scope.registers[name] = registers_.add(bytes == 8);
    } else {
      throw std::runtime_error("registers of 128 bits are not known");
    }
  }

  std::string_view keep(std::string name) { return names_.emplace_back(std::move(name)); }

  void statement(Cursor& cursor, uint32_t end) {
    Statement s = read_statement(cursor);
    s.file = file_;
    s.line = line_;
    try {
      if (s.parts[0] == "call") return call(cursor, s);
      if (s.parts[0] == "brx") return branch_by_index(s, end);
      add(s, end);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(
          fmt::format("{}:{}: {} ({} in {})", module_.file(file_), line_, error.what(), s.name, kernel_.name));
    }
  }

  void add(const Statement& s, uint32_t end) {
    Instruction i;
    i.file = s.file;
    i.line = s.line;
    i.guard_negated = s.guard_negated;
    i.unit = unit_of(s);
    if (!s.guard.empty()) i.guard = predicate(s.guard);
    const auto index = static_cast<uint32_t>(kernel_.code.size());
    const std::string_view base = s.parts[0];
    if (base == "bra") {
      i.flow = Flow::branch;
      jumps_.push_back({index, s.operands.at(0).name, current_});
    } else if (base == "ret" || base == "exit") {
      i.flow = base == "exit" || end == kNone ? Flow::exit : Flow::branch;
      if (i.flow == Flow::branch) returns_.push_back({index, end});
    } else {
      Decoder decoder(*this, s, i, index);
      if (!decode(decoder)) return;
      kernel_.uses_products |= i.of_products;
      kernel_.shared_granule = std::min(kernel_.shared_granule, shared_granule_of(s));
      kernel_.shared_granule = std::min(kernel_.shared_granule, bytes_of_shared_access(s));
    }
    kernel_.code.push_back(std::move(i));
    registers_.note_guard(index, !s.guard.empty());
  }

  // The size of a lane's access; 4 if the access cannot be to shared memory.
  static uint32_t bytes_of_shared_access(const Statement& s) {
    constexpr uint32_t kMost = 4;
    const std::string_view base = s.parts[0];
    if (base != "ld" && base != "st" && base != "atom" && base != "red") return kMost;
    for (const std::string_view space : {"global", "local", "param", "const"}) {
      if (s.has(space)) return kMost;
    }
    return std::min(kMost, bytes_of(s.type()) * (s.has("v4") ? 4 : s.has("v2") ? 2 : 1));
  }

  // One comparison and one branch per target.
  void branch_by_index(const Statement& s, uint32_t end) {
    if (!s.guard.empty() || s.operands.size() != 2) throw std::runtime_error("a brx.idx that depends on a predicate");
    const std::vector<std::string_view>& targets = scopes_[size_t(current_)].targets.at(s.operands[1].name);
    constexpr std::string_view kPredicate = "%brx";
    if (!scopes_[0].predicates.contains(kPredicate)) scopes_[0].predicates[kPredicate] = kernel_.num_predicates++;
    for (uint64_t n = 0; n < targets.size(); ++n) {
      Operand predicate{.kind = Operand::Kind::name, .name = kPredicate},
          number{.kind = Operand::Kind::integer, .value = n};
      Statement compare{.name = "setp.eq.u32", .parts = {"setp", "eq", "u32"}, .file = s.file, .line = s.line};
      compare.operands = {predicate, s.operands[0], number};
      add(compare, end);
      Statement branch{.guard = kPredicate, .name = "bra", .parts = {"bra"}, .file = s.file, .line = s.line};
      branch.operands = {Operand{.kind = Operand::Kind::name, .name = targets[n]}};
      add(branch, end);
    }
    add({.name = "trap", .parts = {"trap"}, .file = s.file, .line = s.line}, end);
  }

  // Inlines the function's body in place of the call; its parameters become variables of the caller.
  void call(Cursor& cursor, const Statement& s) {
    if (!s.guard.empty()) throw std::runtime_error("a call depends on a predicate");
    const std::vector<std::string_view> results = names_in_parentheses(cursor);
    const std::string_view name = cursor.word();
    cursor.take(',');
    const std::vector<std::string_view> arguments = names_in_parentheses(cursor);
    cursor.skip_past(';');
    const std::string_view* const text = module_.function(name);
    if (text == nullptr) throw std::runtime_error(fmt::format("no function {}", name));
    Cursor function(*text);
    Scope inner;
    inner.parent = 0;
    bind(function, results, inner);
    function.word();
    bind(function, arguments, inner);
    while (function.peek() != '{') function.word();
    function.take('{');
    const int caller = current_;
    scopes_.push_back(std::move(inner));
    current_ = static_cast<int>(scopes_.size()) - 1;
    const auto end = static_cast<uint32_t>(return_places_.size());
    return_places_.push_back(0);
    body(function, end);
    return_places_[end] = static_cast<uint32_t>(kernel_.code.size());
    current_ = caller;
  }

  void bind(Cursor& function, const std::vector<std::string_view>& actual, Scope& inner) {
    if (actual.empty() && function.peek() != '(') return;
    function.expect('(');
    for (size_t n = 0; !function.take(')'); ++n) {
      function.word();  // .param
      std::string_view formal;
      read_variable(function, formal);
      inner.symbols[formal] = find_symbol(actual.at(n));
      function.take(',');
    }
  }

  void resolve_jumps() {
    for (const Jump& jump : jumps_) {
      int at = jump.scope;
      while (at >= 0 && !scopes_[size_t(at)].labels.contains(jump.label)) at = scopes_[size_t(at)].parent;
      if (at < 0) throw std::runtime_error(fmt::format("no label {}", jump.label));
      kernel_.code[jump.instruction].target = scopes_[size_t(at)].labels[jump.label];
    }
    for (const auto& [instruction, end] : returns_) kernel_.code[instruction].target = return_places_[end];
  }

  // Only as aligned as the declaration requires: a kernel that needs more must align it itself.
  void place_dynamic_shared() {
    uint32_t begin = (kernel_.static_shared + dynamic_align_ - 1) / dynamic_align_ * dynamic_align_;
    if (!dynamic_.empty() && begin / dynamic_align_ % 2 == 0) begin += dynamic_align_;
    kernel_.dynamic_begin = begin;
    for (const auto& [key, index] : dynamic_) {
      const uint64_t value = begin + static_cast<uint64_t>(key.first);
      kernel_.constants[index].fill(key.second ? value : value | value << 32);
    }
  }

  struct Jump {
    uint32_t instruction;
    std::string_view label;
    int scope;
  };

  Module& module_;
  Kernel& kernel_;
  Registers registers_;
  std::deque<Scope> scopes_;
  std::deque<std::string> names_;
  int current_ = 0;
  std::map<std::pair<uint64_t, bool>, size_t> constants_;
  std::map<std::pair<int64_t, bool>, size_t> dynamic_;
  std::vector<Jump> jumps_;
  std::vector<std::pair<uint32_t, uint32_t>> returns_;
  std::vector<uint32_t> return_places_;
  uint32_t dynamic_align_ = 16, file_ = 0, line_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> parse_kernel(Module& module, std::string name, std::string_view text) {
  auto kernel = std::make_unique<Kernel>();
  kernel->module = &module;
  kernel->name = std::move(name);
  Parser(module, *kernel).parse(text);
  return kernel;
}

}  // namespace gradmill::paper::ptx
