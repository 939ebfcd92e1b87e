// SPDX-License-Identifier: Apache-2.0
// SavePolicy: which activations of a block are kept for its backward. One that is not kept is rebuilt with the same
// bits: by the backward kernel that reads its inputs anyway, or by running the block again.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/error.h"

namespace gradmill {

// A block's activations, in the order of its forward.
enum class Slot : uint8_t {
  x,
  norm1,
  stats1,
  qkv,
  rotated,
  attended,
  branch1,  // a branch's output, where a norm stands on it
  mid,
  norm2,
  stats2,
  gate_up,
  hidden,
  branch2,
  end,  // the stream's sum, where a norm stands after it
};

class SavePolicy {
 public:
  // Everything: the fastest backward.
  static constexpr SavePolicy none() { return SavePolicy("none", ~0u); }
  // Everything but what backward kernels can write again while they run: norm outputs and the activation's output. The
  // last blocks keep these too, in the buffers where the others write them again (see SharedBuffers).
  static constexpr SavePolicy cheap() {
    return SavePolicy("cheap", ~(bit(Slot::norm1) | bit(Slot::norm2) | bit(Slot::hidden)));
  }
  // The block's input: the backward runs the block again.
  static constexpr SavePolicy block() { return SavePolicy("block", bit(Slot::x)); }
  // Nothing: there is no backward.
  static constexpr SavePolicy forward_only() { return SavePolicy("forward only", 0); }

  static SavePolicy by_name(std::string_view name) {
    for (SavePolicy policy : {none(), cheap(), block()}) {
      if (policy.name() == name) return policy;
    }
    throw usage_error(fmt::format("unknown save policy '{}'", name), "choose one of: none, cheap, block");
  }

  constexpr bool keeps(Slot slot) const { return (mask_ & bit(slot)) != 0; }
  constexpr SavePolicy keeping(Slot slot) const { return SavePolicy(name_, mask_ | bit(slot)); }
  // Whether backward kernels write again what is not kept.
  constexpr bool writes_again() const { return keeps(Slot::gate_up) && !keeps(Slot::hidden); }
  constexpr std::string_view name() const { return name_; }

 private:
  constexpr SavePolicy(std::string_view name, uint32_t mask) : name_(name), mask_(mask) {}
  static constexpr uint32_t bit(Slot slot) { return 1u << static_cast<uint32_t>(slot); }

  std::string_view name_;
  uint32_t mask_;
};

}  // namespace gradmill
