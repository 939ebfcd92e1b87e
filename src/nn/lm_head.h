// SPDX-License-Identifier: Apache-2.0
// The language-model head, with a layer of its own in front for masked models: logits, loss and their gradient, in
// chunks of rows so that logits stay small.
#pragma once

#include "nn/linear.h"
#include "nn/mlm_transform.h"
#include "nn/pass.h"
#include "nn/targets.h"

namespace gradmill {

class LmHead {
 public:
  struct Options {
    std::string name;
    int64_t width = 0, vocab = 0;
    ParamId tied_weight = kNoParam;
    bool bias = false;
    float softcap = 0;  // logits = softcap * tanh(logits / softcap); 0: as they are
    bool transform = false;
    MlmTransform::Options transform_options;  // the head sets its name and width
    float init_std = 0.02f;
    int64_t chunk_rows = 0;  // 0: as many as fit a share of the device's memory
  };

  LmHead() = default;
  LmHead(ParamTable& params, const Options& options);

  const Linear& linear() const { return linear_; }

  // out (n, V) of x (n, C).
  void logits(Pass& pass, const TensorView& x, const TensorView& out) const;
  // Adds the losses of all rows to scalars->loss_sum. When training, dx (N, C) becomes the gradient of the mean loss
  // over the step's targets and the weight's gradient accumulates; otherwise dx is not read or written.
  void loss(Pass& pass, const TensorView& x, const Targets& targets, const TensorView& dx) const;

 private:
  // The layer with a vocabulary that a GPU multiplies fast.
  Linear::Padded pad(Pass& pass) const;
  int64_t chunk_rows(const ExecContext& ctx, DType dtype, int64_t rows) const;
  // The losses of x's rows, and when training its gradient in dx.
  void chunked_loss(Pass& pass, const TensorView& x, const Targets& targets, const TensorView& dx) const;

  Options options_;
  MlmTransform transform_;
  Linear linear_;
};

}  // namespace gradmill
