// SPDX-License-Identifier: Apache-2.0
// Operand: an activation in every format its consumers asked for. The consumer declares an OperandSpec, the block
// allocates, the producing op emits; blocks pass both on unread, so a new format touches linears and producers only.
#pragma once

#include "core/tensor_view.h"

namespace gradmill {

struct alignas(16) ScaleSlot {
  float dequant = 1, quant = 1, amax = 0, unused = 0;
};

using ScaleId = int32_t;
inline constexpr ScaleId kNoScale = -1;

struct OperandSpec {
  bool plain = true;          // in the compute dtype
  DType quant = DType::fp32;  // fp32: no quantised copy
  bool rows = false;          // quantised, row-major
  bool cols = false;          // quantised, transposed
  ScaleId scale = kNoScale;
};

struct Operand {
  TensorView plain;  // (N, C)
  TensorView rows;   // (N, C) quantised
  TensorView cols;   // (C, N) quantised
  ScaleSlot* scale = nullptr;

  Operand() = default;
  explicit Operand(const TensorView& tensor) : plain(tensor) {}
};

}  // namespace gradmill
