// SPDX-License-Identifier: Apache-2.0
// Linear: y = x · Wᵀ + b. One weight may serve several named outputs (q, k and v; gate and up) side by side. The plan
// of the parameter table may freeze it, put adapters on slices of it, and have its weight quantised.
#pragma once

#include <string>
#include <vector>

#include "core/operand.h"
#include "nn/adapter.h"
#include "nn/pass.h"
#include "ops/matmul/matmul.h"

namespace gradmill {

// Products are left to the norm behind them, which may do both at once (see ops/norm/norm.h): without c there is none.
inline void finish_product(ExecContext& ctx, MatmulArgs& left) {
  if (left.c.defined()) matmul(ctx, left);
  left = {};
}

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
    ParamId tied_weight = kNoParam;   // use this parameter instead of a new one
    bool owner_keeps_output = false;  // the owner calls backward_magnitude; otherwise the output is made again for it
  };

  Linear() = default;
  Linear(ParamTable& params, const Options& options);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  const std::vector<Slice>& slices() const { return slices_; }
  ParamId weight() const { return weight_; }
  ParamId bias() const { return bias_; }
  const Adapter& adapter() const { return adapter_; }
  // Whether the backward begins with backward_magnitude, which wants the forward's output.
  bool needs_output() const { return adapter_.dora() && owner_keeps_output_; }
  // The formats forward and backward read x in.
  OperandSpec input_spec() const { return {}; }

  // `kept` (like y, or undefined) gets the output too; only where needs_output().
  void forward(Pass& pass, const Operand& x, const TensorView& y, const TensorView& kept = {}) const;
  // The same, or the product that is left to do.
  [[nodiscard]] MatmulArgs forward_but_product(Pass& pass, const Operand& x, const TensorView& y,
                                               const TensorView& kept = {}) const;
  // Returns what takes dy's place in the other parts of the backward (but in backward_bias): dy itself, or with
  // needs_output() `dz`, which may lie in y's or dy's memory. y is the forward's output.
  TensorView backward_magnitude(Pass& pass, const TensorView& y, const TensorView& dy, const TensorView& dz) const;
  // The backward in parts, for callers that make x again on the way: dx = dy · W + beta * dx, and what the parameters
  // collect.
  void backward_input(Pass& pass, const TensorView& dy, const TensorView& dx, float beta = 0) const;
  void backward_weight(Pass& pass, const Operand& x, const TensorView& dy) const;
  void backward_bias(Pass& pass, const TensorView& dy) const;
  // Whether the weight's gradient waits for those of other blocks, if its operands stay.
  bool waits(const Pass& pass) const {
    return pass.grads->wants(weight_) && WaitingGradients::takes(pass.ctx, out_, in_);
  }
  // Whether backward_weight reads x: callers need not make it for a frozen layer without adapters.
  bool reads_input(const Pass& pass) const { return adapter_.on() || pass.grads->wants(weight_); }
  // One weight in the compute dtype and nothing else: then other ops may do its products.
  bool is_plain(const Pass& pass) const {
    return !adapter_.on() && pass.weights.table().spec(weight_).format == WeightFormat::compute;
  }

 private:
  bool makes_output_again() const { return adapter_.dora() && !owner_keeps_output_; }
  bool adapts(const Pass& pass) const { return adapter_.on() && !pass.weights.adapters_merged(); }
  TensorView bias_view(const Pass& pass) const { return bias_ == kNoParam ? TensorView{} : pass.weights[bias_]; }

  int64_t in_ = 0, out_ = 0;
  std::vector<Slice> slices_;
  ParamId weight_ = kNoParam, bias_ = kNoParam;
  Adapter adapter_;
  bool owner_keeps_output_ = false;
};

}  // namespace gradmill
