// SPDX-License-Identifier: Apache-2.0
// Blocks in general, and those whose norms stand before their branches or around them.
#include "nn/residual.h"

#include <algorithm>

namespace gradmill {
namespace {

// How many blocks have a buffer of their own where deferred products read it. So many blocks' products then make a
// batch. With three, weights of 384 x 1536 take 7% longer than with six; with two, 20%.
constexpr size_t kBlocksTogether = 3;

// The gradient of a branch's output, in scratch if there is a norm on it. `layer` made the output.
Operand backward_out_norm(Pass& pass, const Norm& norm, const TensorView& output, const NormStats& stats,
                          const Linear& layer, const Operand& dy) {
  if (!norm.defined()) return dy;
  const TensorView doutput = pass.scratch(dy.plain.shape, "d branch");
  return norm.backward(
      pass, {.sum = output, .stats = stats, .dy = dy.plain, .dx = doutput, .branch = &layer, .defers = true});
}

}  // namespace

void StreamGrad::pass_norm(Pass& pass, const Norm& norm, Norm::Backward call, bool in_place) {
  call.dx = call.drop.on || in_place ? dx : call.sum;
  call.defers = true;
  branch = norm.backward(pass, call);
  dx = call.dx;
}

Block::Block(ParamTable& params, const Options& options)
    : placement_(options.placement), dropout_(options.dropout), dropout_site_(options.dropout_site) {
  const auto make_norm = [&](std::string_view name) {
    Norm::Options norm = options.norm;
    norm.name = fmt::format("{}.{}", options.name, name);
    norm.width = options.attention.width;
    return Norm(params, norm);
  };
  const bool on_input = placement_ != NormPlacement::output;
  const bool on_output = placement_ == NormPlacement::around || placement_ == NormPlacement::output;
  if (on_input && options.has_norm1) norm1_ = make_norm("norm1");
  attention_ = SelfAttention(params, options.attention);
  if (on_output) out_norm1_ = make_norm("norm1_out");
  if (on_input) norm2_ = make_norm("norm2");
  mlp_ = Mlp(params, options.mlp);
  if (on_output) out_norm2_ = make_norm("norm2_out");
}

SharedBuffers Block::make_buffers(Pass& pass, int64_t rows, size_t blocks) const {
  const bool again = pass.policy.writes_again(), after = placement_ == NormPlacement::after;
  const bool norms_input = placement_ != NormPlacement::output;
  // If a block is run again, or has no backward, only its forward uses them.
  Arena& arena = again ? pass.ctx.saved : pass.ctx.scratch;
  const auto ring = [&](bool wanted, Slot slot, int64_t cols, bool defers, std::string_view what) {
    BufferRing buffers{.keeps = again};
    if (!wanted || pass.policy.keeps(slot)) return buffers;
    const size_t count = defers ? std::clamp<size_t>(blocks / 2, 1, kBlocksTogether) : 1;
    for (size_t i = 0; i < count; ++i) {
      buffers.views.push_back(pass.ctx.alloc(arena, {rows, cols}, pass.weights.dtype(), what));
    }
    return buffers;
  };
  const int64_t width = mlp_.up().in();
  const bool up_defers = again && mlp_.up().defers_weight_gradient(pass);
  const bool down_defers = again && mlp_.down().defers_weight_gradient(pass);
  const bool n1_defers = after ? up_defers : again && attention_.keeps_input_to_defer(pass);
  return {.n1 = ring(again && norms_input, Slot::norm1, width, n1_defers, "norm1"),
          .n2 = ring(again && leaves_delta(), Slot::norm2, width, up_defers, "norm2"),
          .hidden = ring(again || leaves_delta(), Slot::hidden, mlp_.hidden_width(), down_defers, "hidden")};
}

// Computes the stream's sum, its norm, and attention of that in `delta`. A stream without delta (the first block's, or
// a rerun's) is its own sum, and its owner keeps it alive.
Product Block::forward_attention(Pass& pass, const Stream& stream, const TensorView& delta, const BlockBuffers& shared,
                                 BlockSaved& saved) const {
  const TensorView& x = stream.x.plain;
  const TensorView sum = stream.delta.defined() ? pass.slot(Slot::x, x.shape, x.dtype, "x") : TensorView{};
  saved.x = sum.defined() ? Operand(sum) : stream.x;
  if (norm1_.defined()) {
    saved.n1 = attention_.qkv().input(pass, Slot::norm1, x.rows(), "norm1", shared.n1.view);
    saved.stats1 = norm1_.alloc_stats(pass, Slot::stats1, x.rows());
    norm1_.forward(pass, x, stream.delta, stream.drop, sum, saved.stats1, saved.n1, stream.product);
  }
  const Operand& input = norm1_.defined() ? saved.n1 : saved.x;
  if (!out_norm1_.defined()) return attention_.forward(pass, input, saved.attention, delta);
  saved.branch1 = pass.slot(Slot::branch1, x.shape, x.dtype, "attention output");
  saved.branch_stats1 = out_norm1_.alloc_stats(pass, Slot::branch1, x.rows());
  Product product = attention_.forward(pass, input, saved.attention, saved.branch1);
  finish_product(pass.ctx, product);
  out_norm1_.forward(pass, saved.branch1, {}, {}, {}, saved.branch_stats1, delta);
  return {};
}

void Block::forward_norm2(Pass& pass, const TensorView& delta, const Product& product, const TensorView& mid,
                          const BlockBuffers& shared, BlockSaved& saved) const {
  saved.mid = mid;
  saved.n2 = mlp_.up().input(pass, Slot::norm2, mid.rows(), "norm2", shared.n2.view);
  saved.stats2 = norm2_.alloc_stats(pass, Slot::stats2, mid.rows());
  norm2_.forward(pass, saved.x.plain, delta, drop(pass, 0), mid, saved.stats2, saved.n2, product);
}

Product Block::forward_mlp(Pass& pass, const TensorView& delta, const BlockBuffers& shared, BlockSaved& saved) const {
  mlp_.forward_hidden(pass, saved.n2, saved.mlp, shared.hidden.view);
  if (!out_norm2_.defined()) return mlp_.forward_down(pass, saved.mlp, delta);
  saved.branch2 = pass.slot(Slot::branch2, saved.mid.shape, saved.mid.dtype, "mlp output");
  saved.branch_stats2 = out_norm2_.alloc_stats(pass, Slot::branch2, saved.mid.rows());
  Product product = mlp_.forward_down(pass, saved.mlp, saved.branch2);
  finish_product(pass.ctx, product);
  out_norm2_.forward(pass, saved.branch2, {}, {}, {}, saved.branch_stats2, delta);
  return {};
}

void Block::forward(Pass& pass, Stream& stream, const StreamBuffers& buffers, const BlockBuffers& shared,
                    BlockSaved& saved) const {
  const ArenaScope scope(pass.ctx.scratch);
  const Shape shape = stream.x.plain.shape;
  const DType dtype = stream.x.plain.dtype;
  if (!leaves_delta()) {
    saved.x = stream.x;
    const TensorView buffer = pass.policy.keeps(Slot::x) ? TensorView{} : buffers.x;
    // The next block's attention reads y, in the formats of this block's.
    const Operand y = attention_.qkv().input(pass, Slot::x, shape[0], "block output", buffer);
    if (placement_ == NormPlacement::after) {
      forward_after(pass, buffers.delta, y, shared, saved);
    } else {
      forward_output(pass, y, shared, saved);
    }
    stream = {y, {}, {}, {}};
  } else {
    saved.drop = stream.drop;
    const Product product = forward_attention(pass, stream, buffers.delta, shared, saved);
    const TensorView mid = pass.policy.keeps(Slot::mid) ? pass.slot(Slot::mid, shape, dtype, "mid") : buffers.x;
    forward_norm2(pass, buffers.delta, product, mid, shared, saved);
    stream = {mid, buffers.delta, drop(pass, 1), forward_mlp(pass, buffers.delta, shared, saved)};
  }
  if (!pass.policy.keeps(Slot::norm1) && !shared.n1.stays) saved.n1 = {};
  if (!pass.policy.keeps(Slot::norm2) && !shared.n2.stays) saved.n2 = {};
  if (!pass.policy.keeps(Slot::hidden) && !shared.hidden.stays) saved.mlp.hidden = {};
}

void Block::rerun(Pass& pass, BlockSaved& saved) const {
  const Shape shape = saved.x.plain.shape;
  const TensorView delta = pass.scratch(shape, "delta again");
  if (placement_ == NormPlacement::output) return forward_output(pass, delta, {}, saved);
  if (placement_ == NormPlacement::after) {
    return forward_after(pass, delta, pass.scratch(shape, "block output again"), {}, saved);
  }
  const Product product = forward_attention(pass, {saved.x, {}, {}, {}}, delta, {}, saved);
  forward_norm2(pass, delta, product, pass.scratch(shape, "mid again"), {}, saved);
  if (out_norm2_.defined()) return (void)forward_mlp(pass, delta, {}, saved);
  mlp_.forward_hidden(pass, saved.n2, saved.mlp);
}

void Block::backward_mlp(Pass& pass, const BlockSaved& saved, const BlockBuffers& shared, StreamGrad& grad) const {
  const ArenaScope scope(pass.ctx.scratch);
  const Operand dbranch =
      backward_out_norm(pass, out_norm2_, saved.branch2, saved.branch_stats2, mlp_.down(), grad.branch);
  const TensorView dn2 = pass.scratch(grad.dx.shape, "d norm2");
  const Operand dgate_up = mlp_.backward(pass, saved.mlp, shared.hidden.view, dbranch, dn2);
  // A norm's backward reads what its output is made of, so it can write that again. The weight's gradient comes after
  // it.
  const Operand again = mlp_.up().input_again(pass, saved.n2, shared.n2.view);
  // Without norm1 nothing moves the gradient away from `mid`, which may end with this backward.
  grad.pass_norm(pass, norm2_,
                 {.sum = saved.mid,
                  .stats = saved.stats2,
                  .dy = dn2,
                  .dresidual = grad.dx,
                  .y = again,
                  .drop = drop(pass, 0),
                  .branch = out_norm1_.defined() ? nullptr : &attention_.out()},
                 !norm1_.defined());
  mlp_.up().backward_weight(pass, again.defined() ? again : saved.n2, dgate_up);
}

void Block::backward_attention(Pass& pass, const BlockSaved& saved, const BlockBuffers& shared, StreamGrad& grad,
                               const Linear* layer_before) const {
  const ArenaScope scope(pass.ctx.scratch);
  const Operand dbranch =
      backward_out_norm(pass, out_norm1_, saved.branch1, saved.branch_stats1, attention_.out(), grad.branch);
  if (!norm1_.defined()) {
    const Operand dqkv = attention_.backward(pass, saved.attention, dbranch, grad.dx, 1);
    return attention_.qkv().backward_weight(pass, saved.x, dqkv);
  }
  const TensorView dn1 = pass.scratch(grad.dx.shape, "d norm1");
  const Operand dqkv = attention_.backward(pass, saved.attention, dbranch, dn1);
  const Operand again = attention_.qkv().input_again(pass, saved.n1, shared.n1.view);
  grad.pass_norm(pass, norm1_,
                 {.sum = saved.x.plain,
                  .stats = saved.stats1,
                  .dy = dn1,
                  .dresidual = grad.dx,
                  .y = again,
                  .drop = saved.drop,
                  .branch = layer_before});
  attention_.qkv().backward_weight(pass, again.defined() ? again : saved.n1, dqkv);
}

void Block::backward(Pass& pass, BlockSaved saved, const BlockBuffers& shared, StreamGrad& grad,
                     const Linear* layer_before) const {
  const ArenaScope scope(pass.ctx.scratch);
  if (!pass.policy.keeps(Slot::qkv)) rerun(pass, saved);
  if (placement_ == NormPlacement::after) return backward_after(pass, saved, shared, grad);
  if (placement_ == NormPlacement::output) return backward_output(pass, saved, shared, grad);
  backward_mlp(pass, saved, shared, grad);
  backward_attention(pass, saved, shared, grad, layer_before);
}

}  // namespace gradmill
