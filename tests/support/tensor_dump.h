// SPDX-License-Identifier: Apache-2.0
// Writes the contents of a GPU test's tensors before and after each op to the file GRADMILL_TEST_DUMP, for
// tools/compare_dumps.py.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/exec_context.h"

namespace gradmill::test {

class TensorDump : public OpObserver {
 public:
  // Null if the variable is not set. Observes ops in place of `inner`, and passes them on to it.
  static std::unique_ptr<TensorDump> of_environment(const Arena& arena, OpObserver* inner);

  TensorDump(const char* path, const Arena& arena, OpObserver* inner);
  ~TensorDump() override;  // writes what has changed since the last op

  // Registers a new tensor of the arena, poisoned or written; `begin`: the arena's used bytes before it.
  void add(const TensorView& view, size_t begin);

  void before(std::string_view op) override;
  void after(std::string_view op) override;

 private:
  enum class When : uint8_t { before, after, end };
  struct Tensor {
    TensorView view;
    size_t begin;
    uint32_t number;
    std::vector<std::byte> poison;  // the initial contents
    uint64_t hash;                  // of what was written last
  };

  void forget_from(size_t begin);
  void sweep(When when, std::string_view op);
  void write_event(When when, std::string_view op);
  void write_tensor(const Tensor& tensor, std::span<const std::byte> bytes);
  void write_text(std::string_view text);
  template <class T>
  void write(T value) {
    file_.write(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  const Arena& arena_;
  OpObserver* const inner_;
  std::ofstream file_;
  std::vector<Tensor> tensors_;
  std::vector<std::byte> bytes_;  // of one tensor
  uint32_t num_tensors_ = 0, num_events_ = 0;
};

// Why the bits computed since the last call may differ between machines; empty if they must be equal. Only the paper
// GPU knows; elsewhere the result is always empty.
std::string take_why_inexact();

}  // namespace gradmill::test
