// SPDX-License-Identifier: Apache-2.0
// Death tests of the contracts that fronts of ops assert. They run on paper: tensors have shapes and no memory.
#pragma once

#include <gtest/gtest.h>

#include <cassert>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/exec_context.h"
#include "core/run_op.h"

namespace gradmill::test {

inline TensorView fp32(const Shape& shape) { return {nullptr, DType::fp32, shape}; }
inline TensorView bf16(const Shape& shape) { return {nullptr, DType::bf16, shape}; }
inline TensorView int32(const Shape& shape) { return {nullptr, DType::int32, shape}; }
inline TensorView int8(const Shape& shape) { return {nullptr, DType::int8, shape}; }
// Rows that do not follow each other directly.
inline TensorView strided(const Shape& shape) {
  TensorView view = fp32(shape);
  ++view.row_stride;
  return view;
}

inline bool has_asserts() {
  [[maybe_unused]] bool on = false;
  assert((on = true));
  return on;
}

// The text as a regular expression that matches only itself.
inline std::string literal(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Something wrong in an op's arguments, and a part of the condition that must refuse it.
template <class Args>
struct Mistake {
  std::function<void(Args&)> make;
  std::string_view refused_by;
};

class OpContracts : public testing::Test {
 protected:
  OpContracts() { ctx_.dry = true; }
  void SetUp() override {
    if (!has_asserts()) GTEST_SKIP() << "this build has no asserts";
  }

  // Runs the op on `right`, then on a copy with each of the mistakes: it must die of the assert named.
  template <class Args>
  void expect_refused(std::type_identity_t<void (*)(ExecContext&, const Args&)> op, const Args& right,
                      const std::vector<Mistake<std::type_identity_t<Args>>>& mistakes) {
    op(ctx_, right);
    for (const auto& [make, refused_by] : mistakes) {
      Args wrong = right;
      make(wrong);
      EXPECT_DEATH(op(ctx_, wrong), "Assertion.*" + literal(refused_by));
    }
  }

  ExecContext ctx_;
};

}  // namespace gradmill::test
