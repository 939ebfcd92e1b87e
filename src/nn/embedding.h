// SPDX-License-Identifier: Apache-2.0
// Token embedding, with learned positions where the model has them.
#pragma once

#include "nn/pass.h"

namespace gradmill {

class Embedding {
 public:
  struct Options {
    std::string name;
    int64_t vocab = 0, width = 0;
    int64_t positions = 0;  // rows of the learned position table; 0: none
    float scale = 1;
    float init_std = 0.02f;
    bool dropout = false;
  };

  Embedding() = default;
  Embedding(ParamTable& params, const Options& options);

  ParamId table() const { return table_; }

  void forward(Pass& pass, const TensorView& tokens, const TensorView& y) const;
  // Changes dy (dropout works in place).
  void backward(Pass& pass, const TensorView& tokens, const TensorView& dy) const;

 private:
  Options options_;
  ParamId table_ = kNoParam, positions_ = kNoParam;
};

}  // namespace gradmill
