// SPDX-License-Identifier: Apache-2.0
// Operand: an activation, a gradient or a weight in the formats in which linear layers multiply it. The linear layer
// that reads it allocates it, a kernel writes it, and what lies in between passes it on without looking inside.
#pragma once

#include "core/tensor_view.h"

namespace gradmill {

struct Operand {
  TensorView plain;  // in the compute dtype

  Operand() = default;
  Operand(const TensorView& tensor) : plain(tensor) {}  // NOLINT: a tensor is an operand with one format

  bool defined() const { return plain.defined(); }
  int64_t rows() const { return plain.rows(); }
};

}  // namespace gradmill
