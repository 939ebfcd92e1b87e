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
    Norm::Options norm;  // the table sets its name and width
    float init_std = 0.02f;
  };

  RelativePositions() = default;
  RelativePositions(ParamTable& params, const Options& options);

  bool defined() const { return table_ != kNoParam; }
  bool wants(const Gradients& grads) const { return grads.wants(table_) || norm_.wants(grads); }

  // Sets pass.relative, in a slot that the backward finds again.
  void forward(Pass& pass, NormStats& stats) const;
  // Before the layers' backward: allocates the sum of their gradients, pass.drelative, in the caller's scope, if
  // anything needs it.
  void begin_backward(Pass& pass) const;
  // After it.
  void end_backward(Pass& pass, const NormStats& stats) const;

 private:
  ParamId table_ = kNoParam;
  Norm norm_;
};

}  // namespace gradmill
