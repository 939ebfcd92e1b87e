// SPDX-License-Identifier: Apache-2.0
// The residual stream between blocks, and a block's sub-layers around it. Norm placement lives here and nowhere else:
// today x + f(norm(x)), with the add fused into the norm that follows it.
#pragma once

#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace gradmill {

// The stream's value is x + delta; the next norm adds them.
struct Stream {
  Operand x;         // (N, C)
  TensorView delta;  // (N, C); undefined before the first block
};

// Room for a stream that no slot keeps, shared by all blocks of a pass.
struct StreamBuffers {
  TensorView x, delta;  // (N, C)
};

struct BlockSaved {
  TensorView x;   // (N, C) the stream at the block's start
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
  // dstream (N, C), the gradient of the stream after the block, becomes the one before it.
  void backward(Pass& pass, const BlockSaved& saved, const TensorView& dstream) const;

 private:
  void forward_attention(Pass& pass, const Stream& stream, const TensorView& delta, BlockSaved& saved) const;
  Operand norm2_forward(Pass& pass, const TensorView& delta, const TensorView& mid, BlockSaved& saved) const;
  // Runs the block again up to the activation: everything that `block` did not keep.
  void rerun(Pass& pass, BlockSaved& saved) const;
  TensorView drop_gradient(Pass& pass, const TensorView& dstream, uint32_t site) const;
  void backward_mlp(Pass& pass, const BlockSaved& saved, const TensorView& dstream) const;
  void backward_attention(Pass& pass, const BlockSaved& saved, const TensorView& dstream) const;

  Norm norm1_, norm2_;
  SelfAttention attention_;
  Mlp mlp_;
  bool dropout_ = false;
  uint32_t dropout_site_ = 0;
};

}  // namespace gradmill
