// SPDX-License-Identifier: Apache-2.0
// The residual stream between blocks, and a block's sub-layers around it. Only this file decides where norms stand; the
// norm that follows a branch adds it to the stream.
//   before:  h = x + attention(norm1(x));              y = h + mlp(norm2(h))
//   around:  h = x + out_norm1(attention(norm1(x)));   y = h + out_norm2(mlp(norm2(h)))
//   after:   h = norm1(x + attention(x));              y = norm2(h + mlp(h))
//   output:  h = x + out_norm1(attention(x));          y = h + out_norm2(mlp(h))
#pragma once

#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "nn/norm_placement.h"
#include "nn/shared_buffers.h"

namespace gradmill {

// The stream's value is x + drop(delta); the next norm adds them.
struct Stream {
  Operand x;         // (N, C); without delta, a block's backward may write over it
  TensorView delta;  // (N, C); undefined before the first block, and between blocks that do not begin with a norm
  Drop drop;
  Product product;  // makes delta, if defined
};

// The gradient of the stream at one point, and that of the branch that ended there.
struct StreamGrad {
  TensorView dx;   // (N, C)
  Operand branch;  // (N, C) dx, or drop(dx)

  // Takes the gradient through a norm whose sum was the stream; `call` comes without dx and defers. The new dx is
  // written over the sum, so that the old one stays for deferred products (see DeferredGradients). It is written over
  // the old one if drop(dx) takes the sum's place, or if `in_place`.
  void pass_norm(Pass& pass, const Norm& norm, Norm::Backward call, bool in_place = false);
};

// Memory for a stream that no slot keeps, shared by all blocks of a pass.
struct StreamBuffers {
  TensorView x, delta;  // (N, C)
};

struct BlockSaved {
  Operand x;   // (N, C) the stream at the block's start
  Drop drop;   // the dropout of the delta that joined it; a backward may set another one for the first block
  Operand n1;  // (N, C) norm1's output
  NormStats stats1;
  AttentionSaved attention;
  TensorView branch1;  // (N, C) around and output: the attention's output
  NormStats branch_stats1;
  TensorView mid;  // (N, C) the stream between the sub-layers; after: before its norm
  Operand n2;      // norm2's output, before and around
  NormStats stats2;
  MlpSaved mlp;
  TensorView branch2;  // (N, C) around and output: the MLP's output
  NormStats branch_stats2;
  TensorView end;  // (N, C) after: the stream at the block's end, before its norm
};

class Block {
 public:
  struct Options {
    NormPlacement placement = NormPlacement::before;
    bool has_norm1 = true;  // false, with norms before: the attention reads the stream as it is
    Norm::Options norm;     // of all norms; the block sets their names and width
    SelfAttention::Options attention;
    Mlp::Options mlp;
    std::string name;
    bool dropout = false;
    uint32_t dropout_site = 0;  // and the next one, for the two sub-layers
  };

  Block() = default;
  Block(ParamTable& params, const Options& options);

  // Whether a norm's backward ends the block's.
  bool begins_with_norm() const { return leaves_delta() && norm1_.defined(); }
  const SelfAttention& attention() const { return attention_; }
  const Mlp& mlp() const { return mlp_; }

  // For `blocks` blocks like this one.
  SharedBuffers make_buffers(Pass& pass, int64_t rows, size_t blocks) const;

  void forward(Pass& pass, Stream& stream, const StreamBuffers& buffers, const BlockBuffers& shared,
               BlockSaved& saved) const;
  // `grad`, the gradient of the stream after the block, becomes the one before it. The norm that writes the gradient of
  // a branch also sums it up for the bias of the linear layer that ends the branch. So this block does that for
  // `layer_before` (the last_layer() of the block before it, or null), and the next norm has done it for last_layer().
  void backward(Pass& pass, BlockSaved saved, const BlockBuffers& shared, StreamGrad& grad,
                const Linear* layer_before) const;
  // The linear layer whose output the norm after this block adds to the stream, if there is one.
  const Linear* last_layer() const { return placement_ == NormPlacement::before ? &mlp_.down() : nullptr; }

 private:
  // Whether the block's last sum is left to the next norm.
  bool leaves_delta() const { return placement_ == NormPlacement::before || placement_ == NormPlacement::around; }
  // Norms before or around. The result, if defined, is the product that makes delta.
  Product forward_attention(Pass& pass, const Stream& stream, const TensorView& delta, const BlockBuffers& shared,
                            BlockSaved& saved) const;
  void forward_norm2(Pass& pass, const TensorView& delta, const Product& product, const TensorView& mid,
                     const BlockBuffers& shared, BlockSaved& saved) const;
  Product forward_mlp(Pass& pass, const TensorView& delta, const BlockBuffers& shared, BlockSaved& saved) const;
  // Runs the block again, up to where its backward starts, for everything that the policy `block` did not keep.
  void rerun(Pass& pass, BlockSaved& saved) const;
  void backward_mlp(Pass& pass, const BlockSaved& saved, const BlockBuffers& shared, StreamGrad& grad) const;
  void backward_attention(Pass& pass, const BlockSaved& saved, const BlockBuffers& shared, StreamGrad& grad,
                          const Linear* layer_before) const;
  // Norms after. `y` (N, C) is the stream after the block.
  void forward_after(Pass& pass, const TensorView& delta, const Operand& y, const BlockBuffers& shared,
                     BlockSaved& saved) const;
  void backward_after(Pass& pass, const BlockSaved& saved, const BlockBuffers& shared, StreamGrad& grad) const;
  // Norms on outputs. `y` (N, C) is the stream after the block; it may be where the stream was before it.
  void forward_output(Pass& pass, const Operand& y, const BlockBuffers& shared, BlockSaved& saved) const;
  void backward_output(Pass& pass, const BlockSaved& saved, const BlockBuffers& shared, StreamGrad& grad) const;

  // The dropout of the attention's output (0) or the MLP's (1).
  Drop drop(const Pass& pass, uint32_t branch) const { return {dropout_ && pass.training(), dropout_site_ + branch}; }

  NormPlacement placement_ = NormPlacement::before;
  Norm norm1_, norm2_, out_norm1_, out_norm2_;
  SelfAttention attention_;
  Mlp mlp_;
  bool dropout_ = false;
  uint32_t dropout_site_ = 0;
};

}  // namespace gradmill
