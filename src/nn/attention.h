// SPDX-License-Identifier: Apache-2.0
// Self-attention: one projection to packed q, k and v, rotary positions and QK-norm on them, attention, one projection
// back.
#pragma once

#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/pass.h"
#include "ops/attention/attention.h"
#include "ops/disentangled/disentangled_attention.h"
#include "ops/rope.h"

namespace gradmill {

// The keys (as attention reads them) and values of a sequence so far; a row's position in the sequence is its row here.
struct KvCache {
  TensorView k, v;  // (P, Hkv D)
};

// Views of a block's slots. Slots that were not kept are undefined; the backward computes them again.
struct AttentionSaved {
  TensorView qkv;              // (N, (H + 2 Hkv) D); with RoPE and no QK-norm, q and k are rotated in place
  TensorView rotated;          // (N, (H + Hkv) D), only with QK-norm or magnitudes of the projection
  NormStats q_stats, k_stats;  // of norms over all heads
  TensorView out;              // (N, H D)
  TensorView projected;        // (N, C) its projection, only if that has magnitudes to learn
  TensorView lse;              // (H, N) fp32
  // The table of relative positions through the projections: queries, keys and, with shared ones, unused values.
  TensorView relative;  // (R, 2 H D) or (R, 3 H D)
  KvCache cache;        // set by the caller of a forward that continues a sequence: no backward
};

class SelfAttention {
 public:
  // Disentangled attention; the table is the pass's.
  struct RelativeOptions {
    bool on = false;
    bool content_to_position = true, position_to_content = true;
    bool shares_keys = true;  // the table goes through the projections of the contents
  };
  struct Options {
    std::string name;
    int64_t width = 0, heads = 0, kv_heads = 0, head_dim = 0;
    bool qkv_bias = false, out_bias = false;
    bool rope = false, qk_norm = false;
    bool qk_norm_all_heads = false;  // QK-norm is one norm over all heads of q and one over those of k, not one a head
    float norm_eps = 1e-6f;
    float norm_offset = 0;  // added to the weights of QK-norms
    bool local = false;     // positions by the local rope table, where the pass has one
    float scale = 0;        // 0: 1 / sqrt(head_dim * terms of a logit)
    AttentionMask mask;
    RelativeOptions relative;
    bool dropout = false;
    uint32_t dropout_site = 0;  // the layer's first
    float init_std = 0.02f, out_init_std = 0.02f;
  };

  SelfAttention() = default;
  SelfAttention(ParamTable& params, const Options& options);

  const Linear& qkv() const { return qkv_; }
  const Linear& out() const { return out_; }

  // For `positions` rows, in the saved arena.
  KvCache make_cache(Pass& pass, int64_t positions) const;

  // y (N, C) = attention(x). If the result is defined, it is the product that makes y (see Linear::forward_product).
  // Slots that the policy does not keep live in scratch until the caller's scope ends. With saved.cache, the rows' keys
  // and values join it at pass.seq.positions, and queries see what it holds.
  [[nodiscard]] Product forward(Pass& pass, const Operand& x, AttentionSaved& saved, const TensorView& y) const;
  // dx (N, C) = the input's gradient + beta * dx, from dy, which may be dx. Everything but two gradients: that of the
  // projection's weight, which the caller adds once it has x, by qkv().backward_weight(pass, x, result), and that of
  // out's bias, which the kernel that writes dy can sum up; else call out().backward_bias(pass, dy). The result is the
  // gradient of saved.qkv. It lies over that, or in scratch until the caller's scope ends.
  Operand backward(Pass& pass, const AttentionSaved& saved, const Operand& dy, const TensorView& dx,
                   float beta = 0) const;
  // Whether the gradient of qkv's weight can be deferred and it pays to keep x for that. With RoPE it can be deferred
  // too, but gains less: models that have it are wider.
  bool keeps_input_to_defer(const Pass& pass) const {
    return !options_.rope && may_write_over_qkv() && qkv_.defers_weight_gradient(pass);
  }

 private:
  bool norms_heads() const { return options_.qk_norm && !options_.qk_norm_all_heads; }
  bool norms_all_heads() const { return options_.qk_norm && options_.qk_norm_all_heads; }
  bool drops(const Pass& pass) const { return options_.dropout && pass.training(); }
  // Whether q and k are needed as the projection made them: for the norms' backward, or for magnitudes.
  bool keeps_qkv() const { return options_.qk_norm || qkv_.needs_output(); }
  RopeArgs rope_args(Pass& pass, const TensorView& qkv, const TensorView& rotated) const;
  // Rotated q and k of a projection, normed before where the model does that, in `saved.rotated` or in place.
  void rotate(Pass& pass, AttentionSaved& saved) const;
  // The gradient of the projection's q and k (columns of dqkv), from that of rotated ones (columns of drotated, which
  // may be changed).
  void rotate_back(Pass& pass, const AttentionSaved& saved, const TensorView& drotated, const TensorView& dqkv) const;
  AttentionArgs attention_args(Pass& pass, const AttentionSaved& saved) const;
  // dq and dk are columns of `dqk`, dv of `dv`, both like the projection.
  AttentionGradArgs gradient_args(Pass& pass, const AttentionSaved& saved, const TensorView& dout,
                                  const TensorView& dqk, const TensorView& dv) const;
  // Whether nothing but attention and RoPE reads the projection. The run decides whether attention's kernel allows it.
  bool may_write_over_qkv() const { return !options_.relative.on && !qkv_.needs_output(); }
  bool writes_over_qkv(Pass& pass, const AttentionSaved& saved, const TensorView& dout) const;
  void add_relative_params(ParamTable& params);
  TensorView relative_table(Pass& pass) const;
  void project_relative(Pass& pass, AttentionSaved& saved) const;
  DisentangledAttentionArgs disentangled_args(Pass& pass, const AttentionSaved& saved) const;
  // dqkv, and all gradients of the table's projections.
  void backward_relative_attention(Pass& pass, const AttentionSaved& saved, const TensorView& dout,
                                   const TensorView& dqkv) const;
  // Moves the keys and values of `args` into the cache.
  static void extend_cache(Pass& pass, const KvCache& cache, AttentionArgs& args);

  Options options_;
  int64_t q_width_ = 0, kv_width_ = 0;
  Linear qkv_, out_, pos_key_, pos_query_;
  ParamId q_norm_ = kNoParam, k_norm_ = kNoParam;  // of each head
  Norm q_norm_all_, k_norm_all_;
};

}  // namespace gradmill
