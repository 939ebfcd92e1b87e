// SPDX-License-Identifier: Apache-2.0
// N rows, C width, H query heads, Hkv key heads, D head width.
#include "nn/attention.h"

#include <cmath>

#include "ops/scatter_rows.h"

namespace gradmill {

SelfAttention::SelfAttention(ParamTable& params, const Options& options) : options_(options) {
  if (options_.scale == 0) {
    const RelativeOptions& relative = options.relative;
    const int terms = relative.on ? 1 + relative.content_to_position + relative.position_to_content : 1;
    options_.scale = 1.0f / std::sqrt(static_cast<float>(options.head_dim * terms));
  }
  q_width_ = options.heads * options.head_dim;
  kv_width_ = options.kv_heads * options.head_dim;
  qkv_ = Linear(params, {.name = options.name + ".qkv",
                         .in = options.width,
                         .slices = {{"q", q_width_}, {"k", kv_width_}, {"v", kv_width_}},
                         .bias = options.qkv_bias,
                         .init_std = options.init_std,
                         .owner_keeps_output = true});
  add_relative_params(params);
  if (norms_all_heads()) {
    const auto make_norm = [&](std::string_view name, int64_t width) {
      return Norm(params, {.name = fmt::format("{}.{}", options.name, name),
                           .width = width,
                           .eps = options.norm_eps,
                           .offset = options.norm_offset});
    };
    q_norm_all_ = make_norm("q_norm", q_width_);
    k_norm_all_ = make_norm("k_norm", kv_width_);
  }
  if (norms_heads()) {
    const Init init = options.norm_offset == 1 ? Init::zeros : Init::ones;
    q_norm_ = params.add({.name = options.name + ".q_norm.weight", .cols = options.head_dim, .init = init});
    k_norm_ = params.add({.name = options.name + ".k_norm.weight", .cols = options.head_dim, .init = init});
  }
  out_ = Linear(params, {.name = options.name + ".out",
                         .in = q_width_,
                         .slices = {{"out", options.width}},
                         .bias = options.out_bias,
                         .init_std = options.out_init_std,
                         .owner_keeps_output = true});
}

KvCache SelfAttention::make_cache(Pass& pass, int64_t positions) const {
  const NameScope scope(pass.ctx, "attention");
  const auto rows = [&](std::string_view what) {
    return pass.ctx.alloc(pass.ctx.saved, {positions, kv_width_}, pass.weights.dtype(), what);
  };
  return {.k = rows("cached k"), .v = rows("cached v")};
}

RopeArgs SelfAttention::rope_args(Pass& pass, const TensorView& qkv, const TensorView& rotated) const {
  RopeArgs args{
      .in = qkv.slice_cols(0, q_width_ + kv_width_),
      .positions = pass.seq.positions,
      .cos_sin = options_.local && pass.tables.local_rope.defined() ? pass.tables.local_rope : pass.tables.rope,
      .heads = options_.heads,
      .kv_heads = options_.kv_heads,
      .head_dim = options_.head_dim,
      .eps = options_.norm_eps,
      .weight_offset = options_.norm_offset};
  args.out = rotated.defined() ? rotated : args.in;
  if (norms_heads()) {
    args.q_weight = pass.weights[q_norm_];
    args.k_weight = pass.weights[k_norm_];
  }
  return args;
}

void SelfAttention::rotate(Pass& pass, AttentionSaved& saved) const {
  if (keeps_qkv()) {
    saved.rotated = pass.slot(Slot::rotated, {saved.qkv.rows(), q_width_ + kv_width_}, saved.qkv.dtype, "rotated qk");
  }
  if (!norms_all_heads()) return rope_forward(pass.ctx, rope_args(pass, saved.qkv, saved.rotated));
  saved.q_stats = q_norm_all_.alloc_stats(pass, Slot::rotated, saved.qkv.rows());
  saved.k_stats = k_norm_all_.alloc_stats(pass, Slot::rotated, saved.qkv.rows());
  const auto normalise = [&](const Norm& norm, const NormStats& stats, int64_t begin, int64_t end) {
    norm.forward(pass, saved.qkv.slice_cols(begin, end), {}, {}, {}, stats,
                 Operand(saved.rotated.slice_cols(begin, end)));
  };
  normalise(q_norm_all_, saved.q_stats, 0, q_width_);
  normalise(k_norm_all_, saved.k_stats, q_width_, q_width_ + kv_width_);
  rope_forward(pass.ctx, rope_args(pass, saved.rotated, {}));
}

void SelfAttention::rotate_back(Pass& pass, const AttentionSaved& saved, const TensorView& drotated,
                                const TensorView& dqkv) const {
  const auto qk_of = [&](const TensorView& qkv) { return qkv.slice_cols(0, q_width_ + kv_width_); };
  if (!norms_all_heads()) {
    const auto q = pass.grads->write(q_norm_), k = pass.grads->write(k_norm_);
    return rope_backward(pass.ctx, {.forward = rope_args(pass, saved.qkv, saved.rotated),
                                    .dout = qk_of(drotated),
                                    .din = qk_of(dqkv),
                                    .dq_weight = q.grad,
                                    .dk_weight = k.grad,
                                    .q_beta = q.beta,
                                    .k_beta = k.beta});
  }
  rope_backward(pass.ctx,
                {.forward = rope_args(pass, saved.rotated, {}), .dout = qk_of(drotated), .din = qk_of(drotated)});
  const auto backward = [&](const Norm& norm, const NormStats& stats, int64_t begin, int64_t end) {
    norm.backward(pass, {.sum = saved.qkv.slice_cols(begin, end),
                         .stats = stats,
                         .dy = drotated.slice_cols(begin, end),
                         .dx = dqkv.slice_cols(begin, end),
                         .defers = true});
  };
  backward(q_norm_all_, saved.q_stats, 0, q_width_);
  backward(k_norm_all_, saved.k_stats, q_width_, q_width_ + kv_width_);
}

AttentionArgs SelfAttention::attention_args(Pass& pass, const AttentionSaved& saved) const {
  const int64_t qk_width = q_width_ + kv_width_;
  const TensorView& qk = saved.rotated.defined() ? saved.rotated : saved.qkv;
  return {.q = qk.slice_cols(0, q_width_),
          .k = qk.slice_cols(q_width_, qk_width),
          .v = saved.qkv.slice_cols(qk_width, qk_width + kv_width_),
          .out = saved.out,
          .lse = saved.lse,
          .seq = pass.seq,
          .heads = options_.heads,
          .kv_heads = options_.kv_heads,
          .head_dim = options_.head_dim,
          .scale = options_.scale,
          .mask = options_.mask,
          .dropout = drops(pass),
          .dropout_site = options_.dropout_site};
}

void SelfAttention::extend_cache(Pass& pass, const KvCache& cache, AttentionArgs& args) {
  scatter_rows(pass.ctx, {.from = args.k, .indices = pass.seq.positions, .to = cache.k});
  scatter_rows(pass.ctx, {.from = args.v, .indices = pass.seq.positions, .to = cache.v});
  args.k = cache.k;
  args.v = cache.v;
}

Product SelfAttention::forward(Pass& pass, const Operand& x, AttentionSaved& saved, const TensorView& y) const {
  const NameScope scope(pass.ctx, "attention");
  const int64_t rows = x.rows();
  saved.qkv = pass.slot(Slot::qkv, {rows, qkv_.out()}, pass.weights.dtype(), "qkv");
  qkv_.forward(pass, x, saved.qkv);
  if (options_.rope) rotate(pass, saved);
  saved.out = pass.slot(Slot::attended, {rows, q_width_}, pass.weights.dtype(), "out");
  saved.lse = pass.slot(Slot::attended, {options_.heads, rows}, DType::fp32, "lse");
  if (options_.relative.on) {
    project_relative(pass, saved);
    disentangled_attention_forward(pass.ctx, disentangled_args(pass, saved));
  } else {
    AttentionArgs args = attention_args(pass, saved);
    if (saved.cache.k.defined()) extend_cache(pass, saved.cache, args);
    attention_forward(pass.ctx, args);
  }
  if (out_.needs_output() && pass.training()) {
    saved.projected = pass.slot(Slot::attended, y.shape, y.dtype, "projected");
  }
  const Product product = out_.forward_product(pass, saved.out, y, saved.projected);
  if (!pass.policy.keeps(Slot::rotated)) saved.rotated = {};
  return product;
}

AttentionGradArgs SelfAttention::gradient_args(Pass& pass, const AttentionSaved& saved, const TensorView& dout,
                                               const TensorView& dqk, const TensorView& dv) const {
  const int64_t qk_width = q_width_ + kv_width_;
  return {.forward = attention_args(pass, saved),
          .dout = dout,
          .dq = dqk.slice_cols(0, q_width_),
          .dk = dqk.slice_cols(q_width_, qk_width),
          .dv = dv.slice_cols(qk_width, qkv_.out())};
}

// Gradients written over the projection stay there, so the product that reads them can be deferred (see
// DeferredGradients). With RoPE, attention writes only the gradients of values there, and rotating back those of q and
// k.
bool SelfAttention::writes_over_qkv(Pass& pass, const AttentionSaved& saved, const TensorView& dout) const {
  if (!may_write_over_qkv()) return false;
  const AttentionGradArgs over = gradient_args(pass, saved, dout, saved.qkv, saved.qkv);
  const AttentionOverwrites allowed = attention_backward_overwrites(pass.ctx, over);
  return allowed == AttentionOverwrites::everything || (options_.rope && allowed == AttentionOverwrites::values);
}

Operand SelfAttention::backward(Pass& pass, const AttentionSaved& kept, const Operand& dy, const TensorView& dx,
                                float beta) const {
  const NameScope name(pass.ctx, "attention");
  Operand dqkv = qkv_.output_gradient(pass, dy.rows(), "d qkv");
  const ArenaScope scope(pass.ctx.scratch);
  AttentionSaved saved = kept;
  if (options_.rope && keeps_qkv() && !saved.rotated.defined()) rotate(pass, saved);

  const TensorView dout = pass.scratch({dy.rows(), q_width_}, "d out");
  const TensorView in_scratch = dqkv.plain;
  if (writes_over_qkv(pass, saved, dout)) dqkv.plain = saved.qkv;
  const TensorView drotated = options_.rope ? in_scratch : dqkv.plain;
  const Operand dprojected = out_.backward_magnitude(pass, saved.projected, dy, saved.projected);
  out_.backward_weight(pass, saved.out, dprojected);
  out_.backward_input(pass, dprojected, dout);
  if (options_.relative.on) {
    backward_relative_attention(pass, saved, dout, dqkv.plain);
  } else {
    attention_backward(pass.ctx, gradient_args(pass, saved, dout, drotated, dqkv.plain));
  }
  if (options_.rope) rotate_back(pass, saved, drotated, dqkv.plain);
  qkv_.backward_bias(pass, dqkv.plain);
  dqkv = qkv_.backward_magnitude(pass, saved.qkv, dqkv, dqkv.plain);
  if (beta != 0) pass.deferred.settle(pass.ctx, dx);
  qkv_.backward_input(pass, dqkv, dx, beta);
  return dqkv;
}

}  // namespace gradmill
