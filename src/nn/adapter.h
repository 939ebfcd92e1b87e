// SPDX-License-Identifier: Apache-2.0
// Adapter: low-rank additions to slices of one linear layer (LoRA), with magnitudes of its rows (DoRA).
//   LoRA  y = x Wᵀ + b + s · h Bᵀ,          h = x̂ Aᵀ, x̂ = drop(x)
//   DoRA  y = gain ⊙ (x Wᵀ + s · h Bᵀ) + b   (see nn/dora.cpp)
// The A of all slices are the rows of one matrix, so one thin product computes h for all of them. They share one
// dropout mask; PEFT, whose q, k and v are separate layers, draws one for each. h is not kept for the backward:
// computing it again reads x, which the gradient of A reads anyway.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nn/pass.h"

namespace gradmill {

class Adapter {
 public:
  struct Slice {
    int64_t begin = 0, end = 0;        // columns of the layer's output
    int64_t rank_begin = 0, rank = 0;  // columns of h; rank 0: no adapter here
    float scale = 0;
    ParamId b = kNoParam;                           // (end - begin, rank)
    ParamId magnitude = kNoParam, gain = kNoParam;  // (end - begin), DoRA only
  };
  struct Layer {
    std::string name;
    ParamId weight = kNoParam;
    int64_t in = 0;
    int64_t out = 0;
  };

  Adapter() = default;
  // The adapter that the plan of `params` has for the layer, if any.
  Adapter(ParamTable& params, const Layer& layer);

  bool on() const { return rank_ > 0; }
  bool dora() const { return dora_; }
  ParamId a() const { return a_; }  // (sum of ranks, in)
  const std::vector<Slice>& slices() const { return slices_; }

  // y holds x Wᵀ and becomes the layer's output; with DoRA `kept` (like y, or undefined) gets it too. `bias` is added
  // if defined.
  void forward(Pass& pass, const TensorView& x, const TensorView& bias, const TensorView& y,
               const TensorView& kept) const;
  // DoRA: dmagnitude, and dz, the gradient of what the gains multiply. dz may be y or dy.
  void backward_magnitude(Pass& pass, const TensorView& y, const TensorView& bias, const TensorView& dy,
                          const TensorView& dz) const;
  // The same dz without the magnitudes' gradient.
  void scale_gradient(Pass& pass, const TensorView& dy, const TensorView& dz) const;
  // Adds to dx. dy is dz where there are gains, as below.
  void backward_input(Pass& pass, const TensorView& dy, const TensorView& dx) const;
  void backward_weight(Pass& pass, const TensorView& x, const TensorView& dy) const;

 private:
  void add_slice(ParamTable& params, const Layer& layer, const SliceAdapter& slice);
  TensorView dropped(Pass& pass, const TensorView& x) const;
  TensorView low_rank_input(Pass& pass, const TensorView& x) const;
  enum class Part : uint8_t { input, weight };
  TensorView low_rank_gradient(Pass& pass, const TensorView& dy, Part part) const;

  ParamId a_ = kNoParam;
  std::vector<Slice> slices_;
  int64_t rank_ = 0;
  bool dora_ = false;
  float dropout_ = 0;
  uint32_t dropout_site_ = 0;
};

}  // namespace gradmill
