// SPDX-License-Identifier: Apache-2.0
#include "nn/residual.h"

#include "ops/dropout.h"

namespace gradmill {

Block::Block(ParamTable& params, const Options& options)
    : dropout_(options.dropout), dropout_site_(options.dropout_site) {
  const int64_t width = options.attention.width;
  norm1_ =
      Norm(params, {.name = options.name + ".norm1", .kind = options.norm, .width = width, .eps = options.norm_eps});
  attention_ = SelfAttention(params, options.attention);
  norm2_ =
      Norm(params, {.name = options.name + ".norm2", .kind = options.norm, .width = width, .eps = options.norm_eps});
  mlp_ = Mlp(params, options.mlp);
}

// The stream's sum, its norm, and attention of it in `delta`. A stream without delta (the first block's, or a rerun's)
// is its own sum: its owner keeps it alive.
void Block::forward_attention(Pass& pass, const Stream& stream, const TensorView& delta, BlockSaved& saved) const {
  const TensorView& x = stream.x.plain;
  saved.x = stream.delta.defined() ? pass.slot(Slot::x, x.shape, x.dtype, "x") : x;
  saved.n1 = pass.slot(Slot::norm1, x.shape, x.dtype, "norm1");
  saved.stats1 = norm1_.alloc_stats(pass, Slot::stats1, x.rows());
  norm1_.forward(pass, x, stream.delta, stream.delta.defined() ? saved.x : TensorView{}, saved.stats1,
                 Operand(saved.n1));
  attention_.forward(pass, Operand(saved.n1), saved.attention, delta);
  if (dropout_ && pass.training()) dropout(pass.ctx, {.x = delta, .y = delta, .site = dropout_site_});
}

Operand Block::norm2_forward(Pass& pass, const TensorView& delta, const TensorView& mid, BlockSaved& saved) const {
  saved.mid = mid;
  saved.n2 = pass.slot(Slot::norm2, mid.shape, mid.dtype, "norm2");
  saved.stats2 = norm2_.alloc_stats(pass, Slot::stats2, mid.rows());
  norm2_.forward(pass, saved.x, delta, mid, saved.stats2, Operand(saved.n2));
  return Operand(saved.n2);
}

void Block::forward(Pass& pass, Stream& stream, const StreamBuffers& buffers, BlockSaved& saved) const {
  const ArenaScope scope(pass.ctx.scratch);
  forward_attention(pass, stream, buffers.delta, saved);
  const TensorView mid =
      pass.policy.keeps(Slot::mid) ? pass.slot(Slot::mid, saved.x.shape, saved.x.dtype, "mid") : buffers.x;
  const Operand n2 = norm2_forward(pass, buffers.delta, mid, saved);
  mlp_.forward(pass, n2, saved.mlp, buffers.delta);
  if (dropout_ && pass.training()) {
    dropout(pass.ctx, {.x = buffers.delta, .y = buffers.delta, .site = dropout_site_ + 1});
  }
  stream = {Operand(mid), buffers.delta};
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

TensorView Block::drop_gradient(Pass& pass, const TensorView& dstream, uint32_t site) const {
  if (!dropout_) return dstream;
  const TensorView dropped = pass.scratch(dstream.shape, "dropped gradient");
  dropout(pass.ctx, {.x = dstream, .y = dropped, .site = site});
  return dropped;
}

void Block::backward_mlp(Pass& pass, const BlockSaved& saved, const TensorView& dstream) const {
  const ArenaScope scope(pass.ctx.scratch);
  TensorView n2 = saved.n2;
  if (!n2.defined()) {
    n2 = pass.scratch(saved.mid.shape, "norm2 again");
    norm2_.rebuild(pass, saved.mid, saved.stats2, Operand(n2));
  }
  const TensorView dn2 = pass.scratch(dstream.shape, "d norm2");
  mlp_.backward(pass, Operand(n2), saved.mlp, drop_gradient(pass, dstream, dropout_site_ + 1), dn2);
  norm2_.backward(pass, saved.mid, saved.stats2, dn2, dstream, dstream);
}

void Block::backward_attention(Pass& pass, const BlockSaved& saved, const TensorView& dstream) const {
  const ArenaScope scope(pass.ctx.scratch);
  TensorView n1 = saved.n1;
  if (!n1.defined()) {
    n1 = pass.scratch(saved.x.shape, "norm1 again");
    norm1_.rebuild(pass, saved.x, saved.stats1, Operand(n1));
  }
  const TensorView dn1 = pass.scratch(dstream.shape, "d norm1");
  attention_.backward(pass, Operand(n1), saved.attention, drop_gradient(pass, dstream, dropout_site_), dn1);
  norm1_.backward(pass, saved.x, saved.stats1, dn1, dstream, dstream);
}

void Block::backward(Pass& pass, const BlockSaved& kept, const TensorView& dstream) const {
  const ArenaScope scope(pass.ctx.scratch);
  BlockSaved saved = kept;
  if (!pass.policy.keeps(Slot::qkv)) rerun(pass, saved);
  backward_mlp(pass, saved, dstream);
  backward_attention(pass, saved, dstream);
}

}  // namespace gradmill
