// SPDX-License-Identifier: Apache-2.0
#include "nn/residual.h"

namespace gradmill {

Block::Block(ParamTable& params, const Options& options)
    : dropout_(options.dropout), dropout_site_(options.dropout_site) {
  const auto norm = [&](const char* name) {
    return Norm(params, {.name = options.name + name,
                         .kind = options.norm,
                         .width = options.attention.width,
                         .eps = options.norm_eps,
                         .bias = options.norm_bias});
  };
  norm1_ = norm(".norm1");
  attention_ = SelfAttention(params, options.attention);
  norm2_ = norm(".norm2");
  mlp_ = Mlp(params, options.mlp);
}

// The stream's sum, its norm, and attention of it in `delta`. A stream without delta (the first block's, or a rerun's)
// is its own sum: its owner keeps it alive.
void Block::forward_attention(Pass& pass, const Stream& stream, const TensorView& delta, BlockSaved& saved) const {
  const TensorView& x = stream.x.plain;
  saved.x = stream.delta.defined() ? pass.slot(Slot::x, x.shape, x.dtype, "x") : x;
  saved.n1 = pass.slot(Slot::norm1, x.shape, x.dtype, "norm1");
  saved.stats1 = norm1_.alloc_stats(pass, Slot::stats1, x.rows());
  norm1_.forward(pass, x, stream.delta, stream.drop, stream.delta.defined() ? saved.x : TensorView{}, saved.stats1,
                 Operand(saved.n1));
  attention_.forward(pass, Operand(saved.n1), saved.attention, delta);
}

Operand Block::norm2_forward(Pass& pass, const TensorView& delta, const TensorView& mid, BlockSaved& saved) const {
  saved.mid = mid;
  saved.n2 = pass.slot(Slot::norm2, mid.shape, mid.dtype, "norm2");
  saved.stats2 = norm2_.alloc_stats(pass, Slot::stats2, mid.rows());
  norm2_.forward(pass, saved.x, delta, drop(pass, 0), mid, saved.stats2, Operand(saved.n2));
  return Operand(saved.n2);
}

void Block::forward(Pass& pass, Stream& stream, const StreamBuffers& buffers, BlockSaved& saved) const {
  const ArenaScope scope(pass.ctx.scratch);
  saved.drop = stream.drop;
  forward_attention(pass, stream, buffers.delta, saved);
  const TensorView mid =
      pass.policy.keeps(Slot::mid) ? pass.slot(Slot::mid, saved.x.shape, saved.x.dtype, "mid") : buffers.x;
  const Operand n2 = norm2_forward(pass, buffers.delta, mid, saved);
  mlp_.forward(pass, n2, saved.mlp, buffers.delta);
  stream = {Operand(mid), buffers.delta, drop(pass, 1)};
  if (!pass.policy.keeps(Slot::norm1)) saved.n1 = {};
  if (!pass.policy.keeps(Slot::norm2)) saved.n2 = {};
}

void Block::rerun(Pass& pass, BlockSaved& saved) const {
  const Stream stream{Operand(saved.x), {}};
  const TensorView delta = pass.scratch(saved.x.shape, "delta again");
  forward_attention(pass, stream, delta, saved);
  const TensorView mid = pass.scratch(saved.x.shape, "mid again");
  const Operand n2 = norm2_forward(pass, delta, mid, saved);
  mlp_.forward_hidden(pass, n2, saved.mlp);
}

void Block::backward_mlp(Pass& pass, const BlockSaved& saved, const StreamGrad& grad) const {
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView dn2 = pass.scratch(grad.dx.shape, "d norm2");
  const TensorView dgate_up = mlp_.backward(pass, saved.mlp, grad.branch(), dn2);
  // A norm's backward reads what its output is made of: it can write that again, and the weight's gradient waits for
  // it.
  const TensorView again = saved.n2.defined() ? TensorView{} : pass.scratch(saved.mid.shape, "norm2 again");
  norm2_.backward(pass, {.sum = saved.mid,
                         .stats = saved.stats2,
                         .dy = dn2,
                         .dresidual = grad.dx,
                         .dx = grad.dx,
                         .y = again,
                         .dropped = grad.dropped,
                         .drop = drop(pass, 0),
                         .branch_bias = attention_.out().bias()});
  mlp_.up().backward_weight(pass, Operand(again.defined() ? again : saved.n2), dgate_up);
}

void Block::backward_attention(Pass& pass, const BlockSaved& saved, const StreamGrad& grad, ParamId bias_before) const {
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView dn1 = pass.scratch(grad.dx.shape, "d norm1");
  const TensorView dqkv = pass.scratch(saved.attention.qkv.shape, "d qkv");
  attention_.backward(pass, saved.attention, grad.branch(), dqkv, dn1);
  const TensorView again = saved.n1.defined() ? TensorView{} : pass.scratch(saved.x.shape, "norm1 again");
  norm1_.backward(pass, {.sum = saved.x,
                         .stats = saved.stats1,
                         .dy = dn1,
                         .dresidual = grad.dx,
                         .dx = grad.dx,
                         .y = again,
                         .dropped = grad.dropped,
                         .drop = saved.drop,
                         .branch_bias = bias_before});
  attention_.qkv().backward_weight(pass, Operand(again.defined() ? again : saved.n1), dqkv);
}

void Block::backward(Pass& pass, const BlockSaved& kept, const StreamGrad& grad, ParamId bias_before) const {
  const ArenaScope scope(pass.ctx.scratch);
  BlockSaved saved = kept;
  if (!pass.policy.keeps(Slot::qkv)) rerun(pass, saved);
  backward_mlp(pass, saved, grad);
  backward_attention(pass, saved, grad, bias_before);
}

}  // namespace gradmill
