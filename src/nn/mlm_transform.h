// SPDX-License-Identifier: Apache-2.0
// The layer in front of a masked language model's head: dense, GELU, norm.
#pragma once

#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/activation.h"

namespace gradmill {

class MlmTransform {
 public:
  struct Options {
    std::string name;  // parameters are name.transform and name.norm
    int64_t width = 0;
    bool bias = true;
    Activation activation = Activation::gelu_erf;
    Norm::Options norm;  // the layer sets its name and width
    float init_std = 0.02f;
  };
  struct Saved {
    TensorView dense, activated, y;  // (N, C)
    NormStats stats;
  };

  MlmTransform() = default;
  MlmTransform(ParamTable& params, const Options& options);

  // In scratch of the caller's scope.
  Saved forward(Pass& pass, const TensorView& x) const;
  // dy (N, C), the gradient of saved.y, becomes that of x. Overwrites saved.dense.
  void backward(Pass& pass, const TensorView& x, const Saved& saved, const TensorView& dy) const;

 private:
  Activation activation_ = Activation::gelu_erf;
  Linear dense_;
  Norm norm_;
};

}  // namespace gradmill
