// SPDX-License-Identifier: Apache-2.0
// BatchShape: the sizes of batches, on which data and session agree.
#pragma once

#include <cstdint>
#include <vector>

namespace gradmill {

struct BatchShape {
  int64_t train_seqs = 1;  // rows of `context` tokens in a micro-batch; each row holds one sequence or several
  int64_t eval_seqs = 1;
  int64_t seqs_per_row = 1;  // the most sequences in a row
  int64_t context = 1;
  // For classifiers, whose sequences follow each other without padding: the most tokens of a micro-batch, which has at
  // most train_seqs or eval_seqs sequences. Batches with fewer tokens are computed in a quarter, half or three quarters
  // of the rows. 0: seqs * context.
  int64_t train_tokens = 0;
  int64_t eval_tokens = 0;
  std::vector<float> class_weights = {};  // for a classifier's training loss, one per label; empty: all are 1
  bool row_weights = false;               // training batches of a language model may have MicroBatch::weights

  // Tokens of a full micro-batch.
  int64_t tokens_per_micro_batch() const { return train_tokens > 0 ? train_tokens : train_seqs * context; }
};

}  // namespace gradmill
