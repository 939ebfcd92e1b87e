// SPDX-License-Identifier: Apache-2.0
// Linear: y = x · Wᵀ + b. One weight may serve several named outputs (q, k and v; gate and up) side by side. The plan
// of the parameter table may freeze the weight, quantise it, and put adapters on its slices.
// Every matrix product of a model with a weight is made here, as a Product. Other layers never see the weight, nor the
// formats of operands: input() and output_gradient() allocate them.
#pragma once

#include <string>
#include <vector>

#include "core/operand.h"
#include "nn/adapter.h"
#include "nn/pass.h"
#include "ops/matmul/product.h"

namespace gradmill {

// Runs a product that was left to the caller, if there is one.
inline void finish_product(ExecContext& ctx, Product& product) {
  if (product.defined()) run_product(ctx, product);
  product = {};
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
    bool owner_keeps_output = false;  // the owner calls backward_magnitude; otherwise the output is computed again
  };
  // The weight and bias with zeros after the last output. Undefined: products use the layer's own.
  struct Padded {
    Operand weight;
    TensorView bias;
  };

  Linear() = default;
  Linear(ParamTable& params, const Options& options);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  const std::vector<Slice>& slices() const { return slices_; }
  ParamId weight() const { return weight_; }
  ParamId bias() const { return bias_; }
  const Adapter& adapter() const { return adapter_; }
  // Whether the backward begins with backward_magnitude, which reads the forward's output.
  bool needs_output() const { return adapter_.dora() && owner_keeps_output_; }

  // Memory for x (rows, in), for the kernel that writes it. As Pass::slot: in `buffer` if there is one.
  Operand input(Pass& pass, Slot slot, int64_t rows, std::string_view what, const TensorView& buffer = {}) const;
  // What a backward kernel must write again in `buffer` before backward_weight reads it. Undefined: nothing, since x
  // was kept or is not read.
  Operand input_again(const Pass& pass, const Operand& kept, const TensorView& buffer) const;
  // Memory for dy (rows, out), for the kernel that writes it: in `buffer`, or in scratch until the caller's scope ends.
  Operand output_gradient(Pass& pass, int64_t rows, std::string_view what, const TensorView& buffer = {}) const;

  // `kept` (like y, or undefined) gets the output too; only where needs_output().
  void forward(Pass& pass, const Operand& x, const TensorView& y, const TensorView& kept = {}) const;
  // The same, but where the forward is a single product it is not run: the caller gets it, and runs it or gives it to
  // an op that joins it with its own work. Otherwise the result is empty and y is complete.
  [[nodiscard]] Product forward_product(Pass& pass, const Operand& x, const TensorView& y,
                                        const TensorView& kept = {}) const;
  // Returns what takes dy's place in the other parts of the backward (except backward_bias): dy itself, or with
  // needs_output() `dz`, which may lie in y's or dy's memory. y is the forward's output.
  Operand backward_magnitude(Pass& pass, const TensorView& y, const Operand& dy, const TensorView& dz) const;
  // The backward in parts, for callers that compute x again in between: dx = dy · W + beta * dx, and the gradients of
  // the parameters.
  void backward_input(Pass& pass, const Operand& dy, const TensorView& dx, float beta = 0) const;
  // The product dy · W, without c, where that is all of backward_input. Otherwise the result is empty and the caller
  // must call backward_input.
  [[nodiscard]] Product backward_input_product(Pass& pass, const Operand& dy) const;
  void backward_weight(Pass& pass, const Operand& x, const Operand& dy) const;
  void backward_bias(Pass& pass, const TensorView& dy) const;

  // For callers with many products of this weight: a copy in scratch with `out` outputs, which lives until the caller's
  // scope ends. Undefined where a forward is more than one product.
  Padded pad(Pass& pass, int64_t out) const;
  // y and dy have columns for all padded outputs.
  void forward(Pass& pass, const Padded& padded, const Operand& x, const TensorView& y) const;
  void backward_input(Pass& pass, const Padded& padded, const TensorView& dy, const TensorView& dx) const;

  // Whether the gradient of the weight is deferred if its operands stay (see DeferredGradients).
  bool defers_weight_gradient(const Pass& pass) const {
    return pass.grads->wants(weight_) && DeferredGradients::defers(pass.ctx, out_, in_);
  }
  // Whether backward_weight reads x: it need not be computed for a frozen layer without adapters.
  bool reads_input(const Pass& pass) const { return adapter_.on() || pass.grads->wants(weight_); }

 private:
  // Whether a forward, and a backward_input, is one product with a weight in the compute dtype.
  bool is_one_product(const Pass& pass) const {
    return !adapter_.on() && pass.weights.table().spec(weight_).format == WeightFormat::compute;
  }
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
