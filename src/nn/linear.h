// SPDX-License-Identifier: Apache-2.0
// Linear: y = x · Wᵀ + b. One weight may serve several named outputs (q, k and v; gate and up) side by side.
#pragma once

#include <string>
#include <vector>

#include "core/operand.h"
#include "nn/pass.h"

namespace gradmill {

class Linear {
 public:
  // A named range of output columns, as model files store them.
  struct Slice {
    std::string name;
    int64_t rows;
  };
  struct Options {
    std::string name;
    int64_t in = 0;
    std::vector<Slice> slices;
    bool bias = false;
    float init_std = 0.02f;
    ParamId tied_weight = kNoParam;  // use this parameter instead of a new one
  };

  Linear() = default;
  Linear(ParamTable& params, const Options& options);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  const std::vector<Slice>& slices() const { return slices_; }
  ParamId weight() const { return weight_; }
  ParamId bias() const { return bias_; }
  // The formats forward and backward read x in.
  OperandSpec input_spec() const { return {}; }

  void forward(Pass& pass, const Operand& x, const TensorView& y) const;
  // The backward in parts, for callers that make x again on the way: dx = dy · W + beta * dx, and what the parameters
  // collect.
  void backward_input(Pass& pass, const TensorView& dy, const TensorView& dx, float beta = 0) const;
  void backward_weight(Pass& pass, const Operand& x, const TensorView& dy) const;
  void backward_bias(Pass& pass, const TensorView& dy) const;
  // Whether backward_weight reads x: callers need not make it for frozen weights.
  bool reads_input(const Pass& pass) const { return pass.grads->wants(weight_); }

 private:
  int64_t in_ = 0, out_ = 0;
  std::vector<Slice> slices_;
  ParamId weight_ = kNoParam, bias_ = kNoParam;
};

}  // namespace gradmill
