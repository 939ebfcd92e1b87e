// SPDX-License-Identifier: Apache-2.0
// Blocks whose norms stand on their branches' outputs alone. Branches read the stream as it is, so its sums are made at
// once. In the backward, each branch's last product adds to the stream's gradient.
#include "nn/residual.h"
#include "ops/dropout.h"

namespace gradmill {
namespace {

// y = x + drop(norm(output)); y is not x.
void add_normed(Pass& pass, const Norm& norm, const TensorView& x, const TensorView& output, const NormStats& stats,
                const Drop& drop, const TensorView& y) {
  norm.forward(pass, output, {}, {}, {}, stats, y);
  if (drop.on) dropout(pass.ctx, {.x = y, .y = y, .site = drop.site});
  dropout(pass.ctx, {.x = x, .y = y, .probability = 0, .add = true});
}

// The gradient of `output`, in scratch. `layer` ended the branch.
Operand backward_normed(Pass& pass, const Norm& norm, const TensorView& output, const NormStats& stats,
                        const Drop& drop, const Linear& layer, const TensorView& dy) {
  const TensorView doutput = pass.scratch(dy.shape, "d branch");
  if (drop.on) dropout(pass.ctx, {.x = dy, .y = doutput, .site = drop.site});
  return norm.backward(
      pass,
      {.sum = output, .stats = stats, .dy = drop.on ? doutput : dy, .dx = doutput, .branch = &layer, .defers = true});
}

}  // namespace

void Block::forward_output(Pass& pass, const Operand& y, const BlockBuffers& shared, BlockSaved& saved) const {
  const TensorView& x = saved.x.plain;
  saved.branch1 = pass.slot(Slot::branch1, x.shape, x.dtype, "attention output");
  saved.branch_stats1 = out_norm1_.alloc_stats(pass, Slot::branch1, x.rows());
  Product product = attention_.forward(pass, saved.x, saved.attention, saved.branch1);
  finish_product(pass.ctx, product);
  saved.mid = pass.slot(Slot::mid, x.shape, x.dtype, "mid");
  add_normed(pass, out_norm1_, x, saved.branch1, saved.branch_stats1, drop(pass, 0), saved.mid);

  mlp_.forward_hidden(pass, saved.mid, saved.mlp, shared.hidden.view);
  saved.branch2 = pass.slot(Slot::branch2, x.shape, x.dtype, "mlp output");
  saved.branch_stats2 = out_norm2_.alloc_stats(pass, Slot::branch2, x.rows());
  product = mlp_.forward_down(pass, saved.mlp, saved.branch2);
  finish_product(pass.ctx, product);
  add_normed(pass, out_norm2_, saved.mid, saved.branch2, saved.branch_stats2, drop(pass, 1), y.plain);
}

void Block::backward_output(Pass& pass, const BlockSaved& saved, const BlockBuffers& shared, StreamGrad& grad) const {
  {
    const ArenaScope scope(pass.ctx.scratch);
    const Operand dbranch =
        backward_normed(pass, out_norm2_, saved.branch2, saved.branch_stats2, drop(pass, 1), mlp_.down(), grad.dx);
    const Operand dgate_up = mlp_.backward(pass, saved.mlp, shared.hidden.view, dbranch, grad.dx, 1);
    mlp_.up().backward_weight(pass, saved.mid, dgate_up);
  }
  const Operand dbranch =
      backward_normed(pass, out_norm1_, saved.branch1, saved.branch_stats1, drop(pass, 0), attention_.out(), grad.dx);
  const Operand dqkv = attention_.backward(pass, saved.attention, dbranch, grad.dx, 1);
  attention_.qkv().backward_weight(pass, saved.x, dqkv);
}

}  // namespace gradmill
