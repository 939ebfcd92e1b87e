// SPDX-License-Identifier: Apache-2.0
// TransformerSpec: everything that differs between model families, as numbers and choices. What has no field here, no
// model can have.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/norm_placement.h"
#include "nn/pooler_kind.h"
#include "ops/activation.h"
#include "ops/norm/norm.h"
#include "ops/pool_rows.h"

namespace gradmill {

// none: the attention alone knows the order (disentangled).
enum class PositionScheme : uint8_t { learned, rope, none };

enum class RopeScalingKind : uint8_t { none, linear, dynamic, llama3, yarn };

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::none;
  float factor = 1;
  int64_t original_context = 0;                 // llama3, yarn: positions the model was made for
  float low_frequency = 1, high_frequency = 4;  // llama3
  float beta_fast = 32, beta_slow = 1;          // yarn
  float attention_factor = 0;                   // yarn; 0: 0.1 ln(factor) + 1

  bool operator==(const RopeScaling&) const = default;
};

// DeBERTa's attention: relative positions in buckets, content to position and position to content.
struct DisentangledSpec {
  int64_t buckets = 0;       // S; 0: this model has ordinary attention
  int64_t max_distance = 0;  // M
  bool log_buckets = true;   // false: distances are clamped, not bucketed
  bool content_to_position = true, position_to_content = true;
  bool share_keys = true;  // positions go through the projections of the contents
  bool norm_table = true;  // a LayerNorm over the position table

  bool on() const { return buckets > 0; }
  bool operator==(const DisentangledSpec&) const = default;
};

enum class HeadKind : uint8_t { causal_lm, masked_lm, classifier, none };

struct TransformerSpec {
  int64_t vocab = 0, layers = 0, width = 0, heads = 0;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: width / heads
  int64_t mlp_width = 0;
  int64_t max_positions = 0;  // context length
  PositionScheme positions = PositionScheme::rope;
  int64_t position_offset = 0;  // rows of a learned position table before the first position's (RoBERTa)
  float rope_theta = 10000;
  RopeScaling rope_scaling;
  NormKind norm = NormKind::rms;
  NormPlacement norm_placement = NormPlacement::before;
  float norm_eps = 1e-6f;
  float norm_offset = 0;        // added to the norms' weights, those of heads too: 1 for Gemma
  bool norm_bias = true;        // of LayerNorms; RMSNorms have none
  bool first_norm = true;       // false: the first block's attention reads the embedding as it is (ModernBERT)
  bool final_norm = true;       // false where norms stand after
  bool embedding_norm = false;  // BERT, DeBERTa, ModernBERT
  int64_t token_types = 0;      // rows of the segment table; 0: none
  bool qk_norm = false;
  bool qk_norm_all_heads = false;  // one norm over all heads of q and one over those of k (OLMo 2), not one a head
  Activation activation = Activation::swiglu;
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool causal = true;
  int64_t window = 0;  // keys a query sees, itself included (not causal: half of it to each side); 0: all
  // Layers that have the window and the local theta, one flag a layer; empty: every layer has the window and
  // rope_theta.
  std::vector<bool> local_layers;
  float local_rope_theta = 10000;  // never scaled
  float attention_scale = 0;       // 0: 1 / sqrt(head_dim)
  DisentangledSpec disentangled;
  bool tied = true;      // the head uses the token table
  bool dropout = false;  // its probability is a StepScalar
  float embedding_scale = 1;
  float init_std = 0.02f;
  int64_t loss_chunk_rows = 0;

  HeadKind head = HeadKind::causal_lm;
  int64_t labels = 0;  // of a classifier; 1: regression or one score
  Pooling pooling = Pooling::last;
  PoolerKind pooler = PoolerKind::none;
  bool classifier_bias = false;
  bool mlm_transform_bias = true, mlm_bias = true;  // of a masked_lm head: its dense layer (which is gelu_norm's
                                                    // pooler too) and the decoder
  float logit_softcap = 0;                          // of language-model logits; 0: none

  // Throws a usage error for sizes that cannot work; fills in the zeros above.
  void complete();
  bool operator==(const TransformerSpec&) const = default;
};

// Learned positions, LayerNorm, GELU; biases everywhere or nowhere.
TransformerSpec gpt2_spec(int64_t vocab, int64_t layers, int64_t heads, int64_t width, int64_t context,
                          bool bias = true);
// An encoder: learned positions and token types, norms after the sums, the first token's pooler.
TransformerSpec bert_spec(int64_t vocab, int64_t layers, int64_t heads, int64_t width, int64_t context);
// RoPE, RMSNorm, SwiGLU, QK-norm, grouped queries.
TransformerSpec qwen3_spec(int64_t vocab, int64_t layers, int64_t heads, int64_t kv_heads, int64_t width,
                           int64_t mlp_width, int64_t context);

}  // namespace gradmill
