// SPDX-License-Identifier: Apache-2.0
// Norm: RMSNorm or LayerNorm with its parameters; the residual add is fused in front (see ops/norm/norm.h).
#pragma once

#include "core/operand.h"
#include "nn/pass.h"
#include "ops/norm/norm.h"

namespace gradmill {

// What a branch's output still has to go through before it joins the stream.
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
  // Until the caller's scope ends.
  NormStats scratch_stats(Pass& pass, int64_t rows) const;
  // sum = x + drop(delta) (delta and sum undefined together), y = norm(sum). May overwrite delta.
  // `product`, if it has a c, is what makes delta.
  void forward(Pass& pass, const TensorView& x, const TensorView& delta, const Drop& drop, const TensorView& sum,
               const NormStats& stats, const Operand& y, const MatmulArgs& product = {}) const;

  struct Backward {
    TensorView sum;
    NormStats stats;
    TensorView dy;
    TensorView dresidual;            // or undefined
    TensorView dx;                   // out: dresidual + norm'(dy); may be either of them, or `sum` without drop
    TensorView y;                    // out: the forward's output again, or undefined
    Drop drop;                       // as the forward had it
    ParamId branch_bias = kNoParam;  // of the linear layer that made delta: it collects the gradient of delta
    bool waits = false;              // what parameters collect may come with pass.waiting
  };
  // Returns the gradient of delta: drop(dx) over `sum`, which nobody needs any more, or dx itself.
  TensorView backward(Pass& pass, const Backward& call) const;

 private:
  NormKind kind_ = NormKind::rms;
  float eps_ = 1e-6f, offset_ = 0;
  ParamId weight_ = kNoParam, bias_ = kNoParam;
};

}  // namespace gradmill
