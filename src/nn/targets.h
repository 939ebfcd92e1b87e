// SPDX-License-Identifier: Apache-2.0
// Targets: what a model should answer in each row of a batch, how much a row counts, and where its losses go.
#pragma once

#include "core/tensor_view.h"

namespace gradmill {

struct Targets {
  TensorView values;  // (N) int32, kIgnoredTarget where there is none; for classifiers see Transformer::train
  // Of language models:
  TensorView weights = {};          // (N) fp32 factors of the rows' losses, of either sign; undefined: 1
  TensorView sequence_losses = {};  // (max_seqs) fp32 out: the sum of each sequence's losses; undefined: not wanted
};

}  // namespace gradmill
