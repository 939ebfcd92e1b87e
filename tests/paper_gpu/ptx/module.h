// SPDX-License-Identifier: Apache-2.0
// The PTX of one compilation. Kernels are parsed on first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gradmill::paper::ptx {

class Cursor;
struct Kernel;

// A variable outside of functions.
struct Variable {
  uint32_t align = 1, bytes = 0;
  bool is_extern = false;  // dynamic shared memory
};

class Module {
 public:
  // Throws std::runtime_error if the text is not in the form that compilers write.
  explicit Module(std::string text);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // 80 for sm_80 and 90 for sm_90a.
  int target() const { return target_; }
  bool has(std::string_view kernel) const { return entries_.contains(std::string(kernel)); }
  std::vector<std::string> kernels() const;
  // Throws std::runtime_error, with the source line, for an unknown instruction.
  const Kernel& kernel(std::string_view name);

  // A function by its name in the text; null if there is none.
  const std::string_view* function(std::string_view name) const;
  const Variable* shared_variable(std::string_view name) const;
  std::byte* global_variable(std::string_view name);
  // Whether the bytes are inside one of the module's own variables (constants, tables).
  bool holds(uint64_t address, uint32_t bytes) const;
  std::string_view file(uint32_t number) const;

 private:
  static constexpr size_t kTableAlignment = 256;
  struct Global {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
    std::byte* begin() const {
      const auto at = reinterpret_cast<uintptr_t>(bytes.get());
      return bytes.get() + (kTableAlignment - at % kTableAlignment) % kTableAlignment;
    }
  };

  void read_variable(Cursor& cursor, bool shared, bool is_extern);
  void read_function(Cursor& cursor, bool entry);

  std::string text_;
  int target_ = 0;
  std::unordered_map<std::string, std::string_view> entries_, functions_;
  std::unordered_map<std::string, Variable> shared_;
  std::map<std::string, Global> globals_;
  std::map<uint32_t, std::string> files_;
  std::map<std::string, std::unique_ptr<Kernel>> parsed_;
};

}  // namespace gradmill::paper::ptx
