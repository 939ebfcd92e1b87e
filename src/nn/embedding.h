// SPDX-License-Identifier: Apache-2.0
// Token embedding, with what the model adds to it: learned positions, token types, a norm, dropout.
#pragma once

#include "nn/norm.h"
#include "nn/pass.h"

namespace gradmill {

struct EmbeddingSaved {
  TensorView sum;  // (N, C) before the norm
  NormStats stats;
};

class Embedding {
 public:
  struct Options {
    std::string name;
    int64_t vocab = 0, width = 0;
    int64_t positions = 0;        // positions of the learned table; 0: none
    int64_t position_offset = 0;  // rows of that table before the first position's
    int64_t token_types = 0;      // rows of the type table; 0: none
    float scale = 1;              // of the tokens' entries; rounded to the compute dtype, as models are trained with it
    float init_std = 0.02f;
    bool dropout = false;
    bool normed = false;
    Norm::Options norm;  // of the sum; the embedding sets its name and width
  };

  Embedding() = default;
  Embedding(ParamTable& params, const Options& options);

  ParamId table() const { return table_; }
  // Whether any of its parameters is trained.
  bool wants(const Gradients& grads) const;

  // `types` (N) int32, or undefined: 0 in every row.
  void forward(Pass& pass, const TensorView& tokens, const TensorView& types, EmbeddingSaved& saved,
               const TensorView& y) const;
  // What the gradient goes through on its way here: the norm that writes it may do that.
  Drop drop(const Pass& pass) const;
  // Changes dy. `dropped`: it went through drop().
  void backward(Pass& pass, const TensorView& tokens, const TensorView& types, const EmbeddingSaved& saved,
                const TensorView& dy, bool dropped) const;

 private:
  // The rows that positions look up.
  TensorView used_positions(const TensorView& table) const;
  void add_gradient_of_first_type(Pass& pass, const TensorView& dy) const;

  Options options_;
  ParamId table_ = kNoParam, positions_ = kNoParam, types_ = kNoParam;
  Norm norm_;
};

}  // namespace gradmill
