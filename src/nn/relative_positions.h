// SPDX-License-Identifier: Apache-2.0
// The table of relative positions that all layers of a disentangled model share, and its norm. A pass shows the normed
// table to the layers and collects their gradients of it.
#pragma once

#include "nn/norm.h"
#include "nn/pass.h"

namespace gradmill {

class RelativePositions {
 public:
  struct Options {
    int64_t rows = 0, width = 0;
    bool normed = true;
    Norm::Options norm;  // its name and width are ours
    float init_std = 0.02f;
  };

  RelativePositions() = default;
  RelativePositions(ParamTable& params, const Options& options);

  bool defined() const { return table_ != kNoParam; }
  bool wants(const Gradients& grads) const { return grads.wants(table_) || norm_.wants(grads); }

  // Sets pass.relative, in a slot that the backward finds again.
  void forward(Pass& pass, NormStats& stats) const;
  // Before the layers' backward: room for the sum of their gradients in pass.drelative, in the caller's scope. Nothing
  // when no one wants it.
  void begin_backward(Pass& pass) const;
  // After it.
  void end_backward(Pass& pass, const NormStats& stats) const;

 private:
  ParamId table_ = kNoParam;
  Norm norm_;
};

}  // namespace gradmill
