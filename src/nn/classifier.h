// SPDX-License-Identifier: Apache-2.0
// The classification head: one row for each sequence, a pooler's layer where the family has one, dropout, logits.
#pragma once

#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/pooler_kind.h"
#include "ops/pool_rows.h"

namespace gradmill {

// S sequences of the layout, L labels.
class Classifier {
 public:
  struct Options {
    int64_t width = 0, labels = 0;
    Pooling pooling = Pooling::first;
    PoolerKind pooler = PoolerKind::none;
    bool pooler_bias = true;
    bool bias = false;
    Norm::Options norm;    // of a pooler that has one; the head sets its name and width
    bool dropout = false;  // of what the classifier reads
    float init_std = 0.02f;
  };

  Classifier() = default;
  Classifier(ParamTable& params, const Options& options);

  // out (S, L) fp32 of x (N, C).
  void logits(Pass& pass, const TensorView& x, const TensorView& out) const;
  // Adds the losses of all sequences to scalars->loss_sum. When training, dx (N, C) becomes the gradient; otherwise it
  // is not read or written. Targets as label_loss has them.
  void loss(Pass& pass, const TensorView& x, const TensorView& targets, const TensorView& dx) const;

 private:
  struct Saved {
    TensorView pooled;     // (S, C)
    TensorView dense;      // (S, C), with a pooler, and so are the others
    TensorView activated;  // before the norm
    NormStats stats;
    TensorView features;  // what the classifier reads
  };

  Saved pool(Pass& pass, const TensorView& x) const;
  // dfeatures becomes the gradient of saved.pooled.
  void backward_pooler(Pass& pass, const Saved& saved, const TensorView& dfeatures) const;
  bool drops(const Pass& pass) const { return options_.dropout && pass.training(); }

  Options options_;
  Linear dense_, linear_;
  Norm norm_;
};

}  // namespace gradmill
