// SPDX-License-Identifier: Apache-2.0
// Blocks whose norms follow the residual sums. The gradient of the stream before a norm and that of the branch that
// begins there meet before that norm, so the branch's last product adds its own to the stream's.
#include "nn/residual.h"

namespace gradmill {

void Block::forward_after(Pass& pass, const TensorView& delta, const Operand& y, const BlockBuffers& shared,
                          BlockSaved& saved) const {
  const TensorView& x = saved.x.plain;
  const Product attended = attention_.forward(pass, saved.x, saved.attention, delta);
  saved.mid = pass.slot(Slot::mid, x.shape, x.dtype, "mid");
  saved.n1 = mlp_.up().input(pass, Slot::norm1, x.rows(), "norm1", shared.n1.view);
  saved.stats1 = norm1_.alloc_stats(pass, Slot::stats1, x.rows());
  norm1_.forward(pass, x, delta, drop(pass, 0), saved.mid, saved.stats1, saved.n1, attended);
  mlp_.forward_hidden(pass, saved.n1, saved.mlp, shared.hidden.view);
  const Product down = mlp_.forward_down(pass, saved.mlp, delta);
  saved.end = pass.slot(Slot::end, x.shape, x.dtype, "end");
  saved.stats2 = norm2_.alloc_stats(pass, Slot::stats2, x.rows());
  norm2_.forward(pass, saved.n1.plain, delta, drop(pass, 1), saved.end, saved.stats2, y, down);
}

void Block::backward_after(Pass& pass, const BlockSaved& saved, const BlockBuffers& shared, StreamGrad& grad) const {
  const auto norm_backward = [&](const Norm& norm, const TensorView& sum, const NormStats& stats, const Operand& y,
                                 const Drop& dropped, const Linear& branch) {
    grad.pass_norm(pass, norm, {.sum = sum, .stats = stats, .dy = grad.dx, .y = y, .drop = dropped, .branch = &branch},
                   true);
  };
  norm_backward(norm2_, saved.end, saved.stats2, {}, drop(pass, 1), mlp_.down());
  const Operand dgate_up = mlp_.backward(pass, saved.mlp, shared.hidden.view, grad.branch, grad.dx, 1);
  const Operand again = mlp_.up().input_again(pass, saved.n1, shared.n1.view);
  norm_backward(norm1_, saved.mid, saved.stats1, again, drop(pass, 0), attention_.out());
  mlp_.up().backward_weight(pass, again.defined() ? again : saved.n1, dgate_up);

  const Operand dqkv = attention_.backward(pass, saved.attention, grad.branch, grad.dx, 1);
  attention_.qkv().backward_weight(pass, saved.x, dqkv);
}

}  // namespace gradmill
