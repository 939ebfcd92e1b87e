// SPDX-License-Identifier: Apache-2.0
// Norm: RMSNorm or LayerNorm with its parameters, after a fused residual add (see ops/norm/norm.h).
#pragma once

#include "nn/linear.h"
#include "nn/pass.h"
#include "ops/norm/norm.h"

namespace gradmill {

// The dropout of a branch's output before it joins the stream.
struct Drop {
  bool on = false;
  uint32_t site = 0;
};

struct NormStats {
  TensorView mean;  // (N) fp32; undefined for RMSNorm
  TensorView rstd;  // (N) fp32
};

class Norm {
 public:
  struct Options {
    std::string name;
    NormKind kind = NormKind::rms;
    int64_t width = 0;
    float eps = 1e-6f;
    float offset = 0;  // added to the weight
    bool bias = true;  // of a LayerNorm; an RMSNorm has none
  };

  Norm() = default;
  Norm(ParamTable& params, const Options& options);

  bool defined() const { return weight_ != kNoParam; }
  bool wants(const Gradients& grads) const { return grads.wants(weight_) || grads.wants(bias_); }
  NormStats alloc_stats(Pass& pass, Slot slot, int64_t rows) const;
  // In scratch until the caller's scope ends.
  NormStats scratch_stats(Pass& pass, int64_t rows) const;
  // sum = x + drop(delta) (delta and sum undefined together), y = norm(sum). May overwrite delta.
  // `product`, if defined, makes delta.
  void forward(Pass& pass, const TensorView& x, const TensorView& delta, const Drop& drop, const TensorView& sum,
               const NormStats& stats, const Operand& y, const Product& product = {}) const;

  struct Backward {
    TensorView sum;
    NormStats stats;
    TensorView dy;
    TensorView dresidual;            // the gradient that bypasses the norm, or undefined
    TensorView dx;                   // out: dresidual + norm'(dy); may be either of them, or `sum` without drop
    Operand y;                       // out: the forward's output again, or undefined
    Drop drop;                       // as the forward had it
    const Linear* branch = nullptr;  // the layer that made delta, whose bias gets delta's gradient
    bool defers = false;             // the parameters' gradients may come with pass.deferred
  };
  // Returns the gradient of delta: drop(dx) over `sum`, which is not needed any more, or dx itself.
  Operand backward(Pass& pass, const Backward& call) const;

 private:
  NormKind kind_ = NormKind::rms;
  float eps_ = 1e-6f, offset_ = 0;
  ParamId weight_ = kNoParam, bias_ = kNoParam;
};

}  // namespace gradmill
