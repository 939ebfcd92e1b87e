// SPDX-License-Identifier: Apache-2.0
// ModelInputs: what a model reads, one entry a row of the batch. How rows form sequences is the SeqLayout's.
#pragma once

#include "core/tensor_view.h"

namespace gradmill {

struct ModelInputs {
  TensorView tokens;       // (N) int32
  TensorView token_types;  // (N) int32, or undefined: 0 in every row. Only models with token types look at it
};

}  // namespace gradmill
