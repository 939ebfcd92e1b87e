// SPDX-License-Identifier: Apache-2.0
// Work: the budget of one rendering. Templates come with models and are not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace gradmill::jinja {

// A problem without its line. The parser and the renderer know the line and add it.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Limits {
  size_t max_source_bytes = size_t{256} << 10;
  int max_expression_depth = 200;
  int max_block_depth = 64;
  int max_value_depth = 200;              // nesting of lists and dicts
  int max_call_depth = 400;               // nesting of expressions and blocks, including calls of macros
  uint64_t max_work = uint64_t{1} << 24;  // in the units below
  size_t max_output_bytes = size_t{64} << 20;
};

// A unit is one step, or 16 bytes of a value that is created or traversed. So memory is limited together with time.
class Work {
 public:
  explicit Work(const Limits& limits) : limits_(limits), left_(limits.max_work) {}

  void spend(uint64_t units) {
    if (units > left_) throw Fault("the template takes too long or makes too large values");
    left_ -= units;
  }
  void spend_bytes(size_t bytes) { spend(1 + bytes / 16); }
  void spend_values(size_t values) { spend(1 + values * 2); }
  const Limits& limits() const { return limits_; }

 private:
  const Limits& limits_;
  uint64_t left_;
};

}  // namespace gradmill::jinja
