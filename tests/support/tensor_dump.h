// SPDX-License-Identifier: Apache-2.0
// What tensors of a test on a GPU hold before and after each op, written to the file GRADMILL_TEST_DUMP, which
// tools/compare_dumps.py reads.
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
  // Null where the variable is not set. Sees ops in the place of `inner`, and shows them to it.
  static std::unique_ptr<TensorDump> of_environment(const Arena& arena, OpObserver* inner);

  TensorDump(const char* path, const Arena& arena, OpObserver* inner);
  ~TensorDump() override;  // writes what has changed since the last op

  // A new tensor of the arena, poisoned or written; `begin`: where the arena's memory was used up to.
  void add(const TensorView& view, size_t begin);

  void before(std::string_view op) override;
  void after(std::string_view op) override;

 private:
  enum class When : uint8_t { before, after, end };
  struct Tensor {
    TensorView view;
    size_t begin;
    uint32_t number;
    std::vector<std::byte> poison;  // what it held at first
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

// Why the bits of what ran since the last call need not be the same everywhere; empty if they must be. Only the paper
// GPU knows: elsewhere it is always empty.
std::string take_why_inexact();

}  // namespace gradmill::test
