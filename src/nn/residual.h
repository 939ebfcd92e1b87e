// SPDX-License-Identifier: Apache-2.0
// The residual stream between blocks, and a block's sub-layers around it. Norm placement lives here and nowhere else:
// today x + f(norm(x)), with the add fused into the norm that follows it.
#pragma once

#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace gradmill {

// The stream's value is x + drop(delta); the next norm adds them.
struct Stream {
  Operand x;         // (N, C)
  TensorView delta;  // (N, C); undefined before the first block
  Drop drop;
};

// The gradient of the stream at one point, and what the branch that ended there gets of it.
struct StreamGrad {
  TensorView dx;       // (N, C)
  TensorView dropped;  // (N, C) drop(dx); undefined in a model without dropout
  const TensorView& branch() const { return dropped.defined() ? dropped : dx; }
};

// Room for a stream that no slot keeps, shared by all blocks of a pass.
struct StreamBuffers {
  TensorView x, delta;  // (N, C)
};

struct BlockSaved {
  TensorView x;   // (N, C) the stream at the block's start
  Drop drop;      // what the delta that came into it went through
  TensorView n1;  // (N, C) its norm
  NormStats stats1;
  AttentionSaved attention;
  TensorView mid;  // (N, C) the stream between the sub-layers
  TensorView n2;
  NormStats stats2;
  MlpSaved mlp;
};

class Block {
 public:
  struct Options {
    NormKind norm = NormKind::rms;
    float norm_eps = 1e-6f;
    bool norm_bias = true;
    SelfAttention::Options attention;
    Mlp::Options mlp;
    std::string name;
    bool dropout = false;
    uint32_t dropout_site = 0;  // and the next one, for the two sub-layers
  };

  Block() = default;
  Block(ParamTable& params, const Options& options);

  const SelfAttention& attention() const { return attention_; }
  const Mlp& mlp() const { return mlp_; }

  void forward(Pass& pass, Stream& stream, const StreamBuffers& buffers, BlockSaved& saved) const;
  // `grad`, the gradient of the stream after the block, becomes the one before it. A bias that ends a branch collects
  // the gradient that a norm writes: the block collects for `bias_before` (of the block before it, or none), and
  // whoever made `grad` has collected for last_bias().
  void backward(Pass& pass, const BlockSaved& saved, const StreamGrad& grad, ParamId bias_before) const;
  ParamId last_bias() const { return mlp_.down().bias(); }

 private:
  void forward_attention(Pass& pass, const Stream& stream, const TensorView& delta, BlockSaved& saved) const;
  Operand norm2_forward(Pass& pass, const TensorView& delta, const TensorView& mid, BlockSaved& saved) const;
  // Runs the block again up to the activation: everything that `block` did not keep.
  void rerun(Pass& pass, BlockSaved& saved) const;
  // Of the attention's output (0) or the MLP's (1).
  Drop drop(const Pass& pass, uint32_t branch) const { return {dropout_ && pass.training(), dropout_site_ + branch}; }
  void backward_mlp(Pass& pass, const BlockSaved& saved, const StreamGrad& grad) const;
  void backward_attention(Pass& pass, const BlockSaved& saved, const StreamGrad& grad, ParamId bias_before) const;

  Norm norm1_, norm2_;
  SelfAttention attention_;
  Mlp mlp_;
  bool dropout_ = false;
  uint32_t dropout_site_ = 0;
};

}  // namespace gradmill
