// SPDX-License-Identifier: Apache-2.0
// The part of self-attention that handles relative positions: this layer projects the shared table. With shared keys
// the table goes through the whole fused projection, values included, so that adapters of that layer apply to positions
// too. It costs little, since the table has few rows.
// P rows of the table, H heads, D head width.
#include "core/rng.h"
#include "nn/attention.h"
#include "ops/convert.h"
#include "ops/disentangled/disentangled_attention.h"
#include "ops/dropout.h"
#include "ops/init.h"

namespace gradmill {

void SelfAttention::add_relative_params(ParamTable& params) {
  if (!options_.relative.on || options_.relative.shares_keys) return;
  const auto projection = [&](std::string_view name) {
    return Linear(params, {.name = fmt::format("{}.{}", options_.name, name),
                           .in = options_.width,
                           .slices = {{std::string(name), q_width_}},
                           .bias = true,
                           .init_std = options_.init_std});
  };
  if (options_.relative.content_to_position) pos_key_ = projection("pos_key");
  if (options_.relative.position_to_content) pos_query_ = projection("pos_query");
}

// The table as this layer reads it: some of it dropped in training.
TensorView SelfAttention::relative_table(Pass& pass) const {
  if (!drops(pass)) return pass.relative;
  const TensorView dropped = pass.scratch(pass.relative.shape, "relative, dropped");
  dropout(pass.ctx, {.x = pass.relative, .y = dropped, .site = options_.dropout_site + RngSite::kRelativeInLayer});
  return dropped;
}

void SelfAttention::project_relative(Pass& pass, AttentionSaved& saved) const {
  const RelativeOptions& relative = options_.relative;
  const int64_t cols = relative.shares_keys ? qkv_.out() : 2 * q_width_;
  saved.relative = pass.slot(Slot::qkv, {pass.relative.rows(), cols}, pass.weights.dtype(), "relative");
  const ArenaScope scope(pass.ctx.scratch);
  const Operand table = relative_table(pass);
  if (relative.shares_keys) return qkv_.forward(pass, table, saved.relative);
  if (relative.position_to_content) pos_query_.forward(pass, table, saved.relative.slice_cols(0, q_width_));
  if (relative.content_to_position) pos_key_.forward(pass, table, saved.relative.slice_cols(q_width_, cols));
}

DisentangledAttentionArgs SelfAttention::disentangled_args(Pass& pass, const AttentionSaved& saved) const {
  DisentangledAttentionArgs args{.content = attention_args(pass, saved),
                                 .pos_k = saved.relative.slice_cols(q_width_, 2 * q_width_),
                                 .pos_q = saved.relative.slice_cols(0, q_width_),
                                 .buckets = pass.tables.buckets};
  if (!options_.relative.content_to_position) args.pos_k = {};
  if (!options_.relative.position_to_content) args.pos_q = {};
  return args;
}

void SelfAttention::backward_relative_attention(Pass& pass, const AttentionSaved& saved, const TensorView& dout,
                                                const TensorView& dqkv) const {
  const ArenaScope scope(pass.ctx.scratch);
  const RelativeOptions& relative = options_.relative;
  const TensorView drelative = pass.scratch(saved.relative.shape, "d relative projected");
  const TensorView dquery = drelative.slice_cols(0, q_width_), dkey = drelative.slice_cols(q_width_, 2 * q_width_);
  disentangled_attention_backward(pass.ctx, {.forward = disentangled_args(pass, saved),
                                             .dout = dout,
                                             .dq = dqkv.slice_cols(0, q_width_),
                                             .dk = dqkv.slice_cols(q_width_, 2 * q_width_),
                                             .dv = dqkv.slice_cols(2 * q_width_, qkv_.out()),
                                             .dpos_k = relative.content_to_position ? dkey : TensorView{},
                                             .dpos_q = relative.position_to_content ? dquery : TensorView{}});
  const TensorView table = relative_table(pass);
  const auto through = [&](const Linear& linear, const TensorView& dprojected) {
    linear.backward_bias(pass, dprojected);
    const Operand dy = linear.backward_magnitude(pass, saved.relative, dprojected, dprojected);
    linear.backward_weight(pass, table, dy);
    if (!pass.drelative.defined()) return;
    const ArenaScope inner(pass.ctx.scratch);
    const TensorView dtable = pass.scratch(pass.relative.shape, "d relative of the layer");
    linear.backward_input(pass, dy, dtable);
    if (drops(pass)) {
      dropout(pass.ctx, {.x = dtable, .y = dtable, .site = options_.dropout_site + RngSite::kRelativeInLayer});
    }
    convert(pass.ctx, {.from = dtable, .to = pass.drelative, .beta = 1});
  };
  if (!relative.shares_keys) {
    if (relative.position_to_content) through(pos_query_, dquery);
    if (relative.content_to_position) through(pos_key_, dkey);
    return;
  }
  // What attention does not read of the projection has no gradient.
  const TensorView zeros = pass.ctx.alloc_scratch(dquery.shape, DType::fp32, "zeros");
  init_values(pass.ctx, {.to = zeros});
  if (!relative.position_to_content) convert(pass.ctx, {.from = zeros, .to = dquery});
  if (!relative.content_to_position) convert(pass.ctx, {.from = zeros, .to = dkey});
  convert(pass.ctx, {.from = zeros, .to = drelative.slice_cols(2 * q_width_, 3 * q_width_)});
  through(qkv_, drelative);
}

}  // namespace gradmill
