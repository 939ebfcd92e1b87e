// SPDX-License-Identifier: Apache-2.0
// Blocks, and those whose norms stand before their branches or around them.
#include "nn/residual.h"

#include <algorithm>

namespace gradmill {
namespace {

// Blocks that have a room of their own where gradients wait for what is written there: they are then products of so
// many blocks. With three, those of 384 x 1536 take 7% longer than with six, with two 20%.
constexpr size_t kBlocksTogether = 3;

// The gradient of a branch's output, in scratch if there is a norm on it.
TensorView backward_out_norm(Pass& pass, const Norm& norm, const TensorView& output, const NormStats& stats,
                             ParamId bias, const TensorView& dy) {
  if (!norm.defined()) return dy;
  const TensorView doutput = pass.scratch(dy.shape, "d branch");
  norm.backward(pass, {.sum = output, .stats = stats, .dy = dy, .dx = doutput, .branch_bias = bias, .waits = true});
  return doutput;
}

}  // namespace

void StreamGrad::pass_norm(Pass& pass, const Norm& norm, Norm::Backward call, bool in_place) {
  call.dx = call.drop.on || in_place ? dx : call.sum;
  call.waits = true;
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

RoomsOfBlocks Block::make_rooms(Pass& pass, int64_t rows, size_t blocks) const {
  const bool again = pass.policy.writes_again(), after = placement_ == NormPlacement::after;
  const bool norms_input = placement_ != NormPlacement::output;
  // Where a block is run again, or never backwards, only its forward uses them.
  Arena& arena = again ? pass.ctx.saved : pass.ctx.scratch;
  const auto rooms = [&](bool wanted, Slot slot, int64_t cols, bool waits, std::string_view what) {
    RoomsOfKind kind{.keeps = again};
    if (!wanted || pass.policy.keeps(slot)) return kind;
    const size_t count = waits ? std::clamp<size_t>(blocks / 2, 1, kBlocksTogether) : 1;
    for (size_t i = 0; i < count; ++i) {
      kind.views.push_back(pass.ctx.alloc(arena, {rows, cols}, pass.weights.dtype(), what));
    }
    return kind;
  };
  const int64_t width = mlp_.up().in();
  const bool up_waits = again && mlp_.up().waits(pass), down_waits = again && mlp_.down().waits(pass);
  const bool n1_waits = after ? up_waits : again && attention_.qkv_waits(pass);
  return {.n1 = rooms(again && norms_input, Slot::norm1, width, n1_waits, "norm1"),
          .n2 = rooms(again && leaves_delta(), Slot::norm2, width, up_waits, "norm2"),
          .hidden = rooms(again || leaves_delta(), Slot::hidden, mlp_.hidden_width(), down_waits, "hidden")};
}

// The stream's sum, its norm, and attention of it in `delta`. A stream without delta (the first block's, or a rerun's)
// is its own sum: its owner keeps it alive.
MatmulArgs Block::forward_attention(Pass& pass, const Stream& stream, const TensorView& delta, const BlockRooms& rooms,
                                    BlockSaved& saved) const {
  const TensorView& x = stream.x.plain;
  saved.x = stream.delta.defined() ? pass.slot(Slot::x, x.shape, x.dtype, "x") : x;
  if (norm1_.defined()) {
    saved.n1 = pass.slot(Slot::norm1, x.shape, x.dtype, "norm1", rooms.n1.view);
    saved.stats1 = norm1_.alloc_stats(pass, Slot::stats1, x.rows());
    norm1_.forward(pass, x, stream.delta, stream.drop, stream.delta.defined() ? saved.x : TensorView{}, saved.stats1,
                   Operand(saved.n1), stream.product);
  }
  const Operand input(norm1_.defined() ? saved.n1 : saved.x);
  if (!out_norm1_.defined()) return attention_.forward(pass, input, saved.attention, delta);
  saved.branch1 = pass.slot(Slot::branch1, x.shape, x.dtype, "attention output");
  saved.branch_stats1 = out_norm1_.alloc_stats(pass, Slot::branch1, x.rows());
  MatmulArgs left = attention_.forward(pass, input, saved.attention, saved.branch1);
  finish_product(pass.ctx, left);
  out_norm1_.forward(pass, saved.branch1, {}, {}, {}, saved.branch_stats1, Operand(delta));
  return {};
}

void Block::forward_norm2(Pass& pass, const TensorView& delta, const MatmulArgs& product, const TensorView& mid,
                          const BlockRooms& rooms, BlockSaved& saved) const {
  saved.mid = mid;
  saved.n2 = pass.slot(Slot::norm2, mid.shape, mid.dtype, "norm2", rooms.n2.view);
  saved.stats2 = norm2_.alloc_stats(pass, Slot::stats2, mid.rows());
  norm2_.forward(pass, saved.x, delta, drop(pass, 0), mid, saved.stats2, Operand(saved.n2), product);
}

MatmulArgs Block::forward_mlp(Pass& pass, const TensorView& delta, const BlockRooms& rooms, BlockSaved& saved) const {
  mlp_.forward_hidden(pass, Operand(saved.n2), saved.mlp, rooms.hidden.view);
  if (!out_norm2_.defined()) return mlp_.forward_down(pass, saved.mlp, delta);
  saved.branch2 = pass.slot(Slot::branch2, saved.mid.shape, saved.mid.dtype, "mlp output");
  saved.branch_stats2 = out_norm2_.alloc_stats(pass, Slot::branch2, saved.mid.rows());
  MatmulArgs left = mlp_.forward_down(pass, saved.mlp, saved.branch2);
  finish_product(pass.ctx, left);
  out_norm2_.forward(pass, saved.branch2, {}, {}, {}, saved.branch_stats2, Operand(delta));
  return {};
}

void Block::forward(Pass& pass, Stream& stream, const StreamBuffers& buffers, const BlockRooms& rooms,
                    BlockSaved& saved) const {
  const ArenaScope scope(pass.ctx.scratch);
  if (!leaves_delta()) {
    saved.x = stream.x.plain;
    const Shape shape = saved.x.shape;
    const TensorView y =
        pass.policy.keeps(Slot::x) ? pass.slot(Slot::x, shape, saved.x.dtype, "block output") : buffers.x;
    if (placement_ == NormPlacement::after) {
      forward_after(pass, buffers.delta, y, rooms, saved);
    } else {
      forward_output(pass, y, rooms, saved);
    }
    stream = {Operand(y), {}, {}, {}};
  } else {
    saved.drop = stream.drop;
    const MatmulArgs left = forward_attention(pass, stream, buffers.delta, rooms, saved);
    const TensorView mid =
        pass.policy.keeps(Slot::mid) ? pass.slot(Slot::mid, saved.x.shape, saved.x.dtype, "mid") : buffers.x;
    forward_norm2(pass, buffers.delta, left, mid, rooms, saved);
    stream = {Operand(mid), buffers.delta, drop(pass, 1), forward_mlp(pass, buffers.delta, rooms, saved)};
  }
  if (!pass.policy.keeps(Slot::norm1) && !rooms.n1.stays) saved.n1 = {};
  if (!pass.policy.keeps(Slot::norm2) && !rooms.n2.stays) saved.n2 = {};
  if (!pass.policy.keeps(Slot::hidden) && !rooms.hidden.stays) saved.mlp.hidden = {};
}

void Block::rerun(Pass& pass, BlockSaved& saved) const {
  const TensorView delta = pass.scratch(saved.x.shape, "delta again");
  if (placement_ == NormPlacement::output) return forward_output(pass, delta, {}, saved);
  if (placement_ == NormPlacement::after) {
    return forward_after(pass, delta, pass.scratch(saved.x.shape, "block output again"), {}, saved);
  }
  const MatmulArgs left = forward_attention(pass, {Operand(saved.x), {}, {}, {}}, delta, {}, saved);
  forward_norm2(pass, delta, left, pass.scratch(saved.x.shape, "mid again"), {}, saved);
  if (out_norm2_.defined()) return (void)forward_mlp(pass, delta, {}, saved);
  mlp_.forward_hidden(pass, Operand(saved.n2), saved.mlp);
}

void Block::backward_mlp(Pass& pass, const BlockSaved& saved, const BlockRooms& rooms, StreamGrad& grad) const {
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView dbranch =
      backward_out_norm(pass, out_norm2_, saved.branch2, saved.branch_stats2, mlp_.down().bias(), grad.branch);
  const TensorView dn2 = pass.scratch(grad.dx.shape, "d norm2");
  const TensorView dgate_up = mlp_.backward(pass, saved.mlp, rooms.hidden.view, dbranch, dn2);
  // A norm's backward reads what its output is made of: it can write that again, and the weight's gradient waits for
  // it.
  const bool rebuilds = !saved.n2.defined() && mlp_.up().reads_input(pass);
  const TensorView again = rebuilds ? rooms.n2.view : TensorView{};
  // Without norm1 nothing moves the gradient on from `mid`, which may end with this backward.
  grad.pass_norm(pass, norm2_,
                 {.sum = saved.mid,
                  .stats = saved.stats2,
                  .dy = dn2,
                  .dresidual = grad.dx,
                  .y = again,
                  .drop = drop(pass, 0),
                  .branch_bias = out_norm1_.defined() ? kNoParam : attention_.out().bias()},
                 !norm1_.defined());
  mlp_.up().backward_weight(pass, Operand(again.defined() ? again : saved.n2), dgate_up);
}

void Block::backward_attention(Pass& pass, const BlockSaved& saved, const BlockRooms& rooms, StreamGrad& grad,
                               ParamId bias_before) const {
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView dbranch =
      backward_out_norm(pass, out_norm1_, saved.branch1, saved.branch_stats1, attention_.out().bias(), grad.branch);
  if (!norm1_.defined()) {
    const TensorView dqkv = attention_.backward(pass, saved.attention, dbranch, grad.dx, 1);
    return attention_.qkv().backward_weight(pass, Operand(saved.x), dqkv);
  }
  const TensorView dn1 = pass.scratch(grad.dx.shape, "d norm1");
  const TensorView dqkv = attention_.backward(pass, saved.attention, dbranch, dn1);
  const bool rebuilds = !saved.n1.defined() && attention_.qkv().reads_input(pass);
  const TensorView again = rebuilds ? rooms.n1.view : TensorView{};
  grad.pass_norm(pass, norm1_,
                 {.sum = saved.x,
                  .stats = saved.stats1,
                  .dy = dn1,
                  .dresidual = grad.dx,
                  .y = again,
                  .drop = saved.drop,
                  .branch_bias = bias_before});
  attention_.qkv().backward_weight(pass, Operand(again.defined() ? again : saved.n1), dqkv);
}

void Block::backward(Pass& pass, BlockSaved saved, const BlockRooms& rooms, StreamGrad& grad,
                     ParamId bias_before) const {
  const ArenaScope scope(pass.ctx.scratch);
  if (!pass.policy.keeps(Slot::qkv)) rerun(pass, saved);
  if (placement_ == NormPlacement::after) return backward_after(pass, saved, rooms, grad);
  if (placement_ == NormPlacement::output) return backward_output(pass, saved, rooms, grad);
  backward_mlp(pass, saved, rooms, grad);
  backward_attention(pass, saved, rooms, grad, bias_before);
}

}  // namespace gradmill
