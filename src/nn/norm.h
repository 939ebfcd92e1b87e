// SPDX-License-Identifier: Apache-2.0
// Norm: RMSNorm or LayerNorm with its parameters; the residual add is fused in front (see ops/norm.h).
#pragma once

#include "core/operand.h"
#include "nn/pass.h"
#include "ops/norm.h"

namespace gradmill {

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
  };

  Norm() = default;
  Norm(ParamTable& params, const Options& options);

  NormStats alloc_stats(Pass& pass, Slot slot, int64_t rows) const;
  // sum = x + delta (delta and sum undefined together), y = norm(sum).
  void forward(Pass& pass, const TensorView& x, const TensorView& delta, const TensorView& sum, const NormStats& stats,
               const Operand& y) const;
  void rebuild(Pass& pass, const TensorView& sum, const NormStats& stats, const Operand& y) const;
  // dx = dresidual + norm'(dy); dresidual may be undefined, dx may be dresidual or dy.
  void backward(Pass& pass, const TensorView& sum, const NormStats& stats, const TensorView& dy,
                const TensorView& dresidual, const TensorView& dx) const;

 private:
  NormArgs args(const Pass& pass, const TensorView& x, const NormStats& stats, const Operand& y) const;

  NormKind kind_ = NormKind::rms;
  float eps_ = 1e-6f;
  ParamId weight_ = kNoParam, bias_ = kNoParam;
};

}  // namespace gradmill
