// SPDX-License-Identifier: Apache-2.0
// Blocks whose norms follow the residual sums. Gradients of a stream before a norm and of the branch that begins there
// meet before that norm, so the branch's last product adds its own to the stream's.
#include "nn/residual.h"

namespace gradmill {

void Block::forward_after(Pass& pass, const TensorView& delta, const TensorView& y, const BlockRooms& rooms,
                          BlockSaved& saved) const {
  const TensorView& x = saved.x;
  const MatmulArgs attended = attention_.forward(pass, Operand(x), saved.attention, delta);
  saved.mid = pass.slot(Slot::mid, x.shape, x.dtype, "mid");
  saved.n1 = pass.slot(Slot::norm1, x.shape, x.dtype, "norm1", rooms.n1.view);
  saved.stats1 = norm1_.alloc_stats(pass, Slot::stats1, x.rows());
  norm1_.forward(pass, x, delta, drop(pass, 0), saved.mid, saved.stats1, Operand(saved.n1), attended);
  mlp_.forward_hidden(pass, Operand(saved.n1), saved.mlp, rooms.hidden.view);
  const MatmulArgs down = mlp_.forward_down(pass, saved.mlp, delta);
  saved.end = pass.slot(Slot::end, x.shape, x.dtype, "end");
  saved.stats2 = norm2_.alloc_stats(pass, Slot::stats2, x.rows());
  norm2_.forward(pass, saved.n1, delta, drop(pass, 1), saved.end, saved.stats2, Operand(y), down);
}

void Block::backward_after(Pass& pass, const BlockSaved& saved, const BlockRooms& rooms, StreamGrad& grad) const {
  const auto norm_backward = [&](const Norm& norm, const TensorView& sum, const NormStats& stats, const TensorView& y,
                                 const Drop& dropped, const Linear& branch_end) {
    grad.pass_norm(
        pass, norm,
        {.sum = sum, .stats = stats, .dy = grad.dx, .y = y, .drop = dropped, .branch_bias = branch_end.bias()}, true);
  };
  norm_backward(norm2_, saved.end, saved.stats2, {}, drop(pass, 1), mlp_.down());
  const TensorView dgate_up = mlp_.backward(pass, saved.mlp, rooms.hidden.view, grad.branch, grad.dx, 1);
  const bool rebuilds = !saved.n1.defined() && mlp_.up().reads_input(pass);
  const TensorView again = rebuilds ? rooms.n1.view : TensorView{};
  norm_backward(norm1_, saved.mid, saved.stats1, again, drop(pass, 0), attention_.out());
  mlp_.up().backward_weight(pass, Operand(again.defined() ? again : saved.n1), dgate_up);

  const TensorView dqkv = attention_.backward(pass, saved.attention, grad.branch, grad.dx, 1);
  attention_.qkv().backward_weight(pass, Operand(saved.x), dqkv);
}

}  // namespace gradmill
