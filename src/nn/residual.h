// SPDX-License-Identifier: Apache-2.0
// The residual stream between blocks, and a block's sub-layers around it. Where norms stand is decided here and nowhere
// else; a branch's add to the stream is fused into the norm that follows it.
//   before:  h = x + attention(norm1(x));              y = h + mlp(norm2(h))
//   around:  h = x + out_norm1(attention(norm1(x)));   y = h + out_norm2(mlp(norm2(h)))
//   after:   h = norm1(x + attention(x));              y = norm2(h + mlp(h))
//   output:  h = x + out_norm1(attention(x));          y = h + out_norm2(mlp(h))
#pragma once

#include "nn/attention.h"
#include "nn/block_rooms.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "nn/norm_placement.h"

namespace gradmill {

// The stream's value is x + drop(delta); the next norm adds them.
struct Stream {
  Operand x;         // (N, C); where there is no delta, a block's backward may write over it
  TensorView delta;  // (N, C); undefined before the first block, and between blocks that do not begin with a norm
  Drop drop;
  MatmulArgs product;  // makes delta, if it has a c
};

// The gradient of the stream at one point, and what the branch that ended there gets of it.
struct StreamGrad {
  TensorView dx;      // (N, C)
  TensorView branch;  // (N, C) dx, or drop(dx)

  // Through a norm whose sum the stream was; `call` without dx and waits. dx goes over the sum, so that what it was
  // stays as it is for products that wait (see WaitingGradients); or, if drop(dx) goes there or `in_place`, stays where
  // it is.
  void pass_norm(Pass& pass, const Norm& norm, Norm::Backward call, bool in_place = false);
};

// Room for a stream that no slot keeps, shared by all blocks of a pass.
struct StreamBuffers {
  TensorView x, delta;  // (N, C)
};

struct BlockSaved {
  TensorView x;   // (N, C) the stream at the block's start
  Drop drop;      // what the delta that came into it went through; a backward may set another one for the first block
  TensorView n1;  // (N, C) norm1's output
  NormStats stats1;
  AttentionSaved attention;
  TensorView branch1;  // (N, C) around and output: the attention's output
  NormStats branch_stats1;
  TensorView mid;  // (N, C) the stream between the sub-layers; after: before its norm
  TensorView n2;   // before and around
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
    Norm::Options norm;     // of all norms; names and width are ours
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

  // For so many blocks like this one.
  RoomsOfBlocks make_rooms(Pass& pass, int64_t rows, size_t blocks) const;

  void forward(Pass& pass, Stream& stream, const StreamBuffers& buffers, const BlockRooms& rooms,
               BlockSaved& saved) const;
  // `grad`, the gradient of the stream after the block, becomes the one before it. A bias that ends a branch collects
  // the gradient that a norm writes: the block collects for `bias_before` (of the block before it, or none), and
  // whoever made `grad` has collected for last_bias().
  void backward(Pass& pass, BlockSaved saved, const BlockRooms& rooms, StreamGrad& grad, ParamId bias_before) const;
  ParamId last_bias() const { return placement_ == NormPlacement::before ? mlp_.down().bias() : kNoParam; }

 private:
  // Whether the block's last sum is left to the next norm.
  bool leaves_delta() const { return placement_ == NormPlacement::before || placement_ == NormPlacement::around; }
  // Norms before or around. What is left of `delta` is the result.
  MatmulArgs forward_attention(Pass& pass, const Stream& stream, const TensorView& delta, const BlockRooms& rooms,
                               BlockSaved& saved) const;
  void forward_norm2(Pass& pass, const TensorView& delta, const MatmulArgs& product, const TensorView& mid,
                     const BlockRooms& rooms, BlockSaved& saved) const;
  MatmulArgs forward_mlp(Pass& pass, const TensorView& delta, const BlockRooms& rooms, BlockSaved& saved) const;
  // Runs the block again up to where its backward starts: everything that `block` did not keep.
  void rerun(Pass& pass, BlockSaved& saved) const;
  void backward_mlp(Pass& pass, const BlockSaved& saved, const BlockRooms& rooms, StreamGrad& grad) const;
  void backward_attention(Pass& pass, const BlockSaved& saved, const BlockRooms& rooms, StreamGrad& grad,
                          ParamId bias_before) const;
  // Norms after. `y` (N, C): the stream behind the block.
  void forward_after(Pass& pass, const TensorView& delta, const TensorView& y, const BlockRooms& rooms,
                     BlockSaved& saved) const;
  void backward_after(Pass& pass, const BlockSaved& saved, const BlockRooms& rooms, StreamGrad& grad) const;
  // Norms on outputs. `y` (N, C): the stream after the block; it may be where the stream was before it.
  void forward_output(Pass& pass, const TensorView& y, const BlockRooms& rooms, BlockSaved& saved) const;
  void backward_output(Pass& pass, const BlockSaved& saved, const BlockRooms& rooms, StreamGrad& grad) const;

  // Of the attention's output (0) or the MLP's (1).
  Drop drop(const Pass& pass, uint32_t branch) const { return {dropout_ && pass.training(), dropout_site_ + branch}; }

  NormPlacement placement_ = NormPlacement::before;
  Norm norm1_, norm2_, out_norm1_, out_norm2_;
  SelfAttention attention_;
  Mlp mlp_;
  bool dropout_ = false;
  uint32_t dropout_site_ = 0;
};

}  // namespace gradmill
