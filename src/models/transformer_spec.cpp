// SPDX-License-Identifier: Apache-2.0
// Specifications: checks, and the shapes of the two decoder styles.
#include "models/transformer_spec.h"

#include <algorithm>

#include "core/error.h"

namespace gradmill {
namespace {

void require_positive(int64_t value, std::string_view what) {
  if (value > 0) return;
  throw usage_error(fmt::format("{} is {}", what, value), "it must be at least 1");
}

void require(bool holds, const std::string& what, const std::string& fix) {
  if (!holds) throw usage_error(what, fix);
}

void check_rope(const TransformerSpec& spec) {
  const RopeScaling& scaling = spec.rope_scaling;
  if (spec.positions != PositionScheme::rope) {
    require(scaling.kind == RopeScalingKind::none, "a model without rotary positions has a rope scaling",
            "remove the scaling");
    require(!spec.qk_norm, "norms of queries and keys go with rotary positions only", "switch one of them");
    return;
  }
  require(spec.head_dim % 2 == 0, fmt::format("rotary positions need an even head size, not {}", spec.head_dim),
          "change width or heads");
  require(spec.rope_theta > 0 && spec.local_rope_theta > 0,
          fmt::format("the rope thetas are {} and {}", spec.rope_theta, spec.local_rope_theta),
          "both must be positive");
  if (scaling.kind == RopeScalingKind::none) return;
  require(scaling.factor > 0, fmt::format("the rope scaling's factor is {}", scaling.factor), "it must be positive");
  if (scaling.kind == RopeScalingKind::dynamic) {
    require(spec.head_dim > 2, "dynamic rope scaling needs heads of more than 2", "change width or heads");
  }
  if (scaling.kind == RopeScalingKind::llama3 || scaling.kind == RopeScalingKind::yarn) {
    require(scaling.original_context > 0, "the rope scaling does not say which context the model was made for",
            "give its original context");
  }
  require(scaling.kind != RopeScalingKind::llama3 || scaling.low_frequency < scaling.high_frequency,
          fmt::format("the rope scaling's frequencies are {} and {}", scaling.low_frequency, scaling.high_frequency),
          "the low one must be below the high one");
}

void check_norms(const TransformerSpec& spec) {
  const bool after = spec.norm_placement == NormPlacement::after;
  require(spec.final_norm || after, "only norms that stand after the sums make a final norm needless",
          "switch the final norm on");
  require(spec.qk_norm || !spec.qk_norm_all_heads,
          "one norm for all heads of queries and keys, without norms of queries and keys", "switch both on or off");
  require(spec.first_norm || spec.norm_placement == NormPlacement::before,
          "only where norms stand before can the first one be missing", "switch the first norm on");
}

void check_layers(const TransformerSpec& spec) {
  require(spec.window >= 0, fmt::format("the attention window is {}", spec.window), "it must be 0 (off) or more");
  if (spec.local_layers.empty()) return;
  require(std::ssize(spec.local_layers) == spec.layers,
          fmt::format("{} layers are said to be local or not, of {}", spec.local_layers.size(), spec.layers),
          "give one flag a layer");
  const bool any = std::find(spec.local_layers.begin(), spec.local_layers.end(), true) != spec.local_layers.end();
  require(!any || spec.window > 0, "local layers have no window", "give the window's size");
}

void check_disentangled(const TransformerSpec& spec) {
  if (!spec.disentangled.on()) {
    require(spec.positions != PositionScheme::none, "nothing tells the model the order of its tokens",
            "choose learned or rotary positions");
    return;
  }
  require(spec.disentangled.content_to_position || spec.disentangled.position_to_content,
          "disentangled attention without a term of positions", "switch one of them on");
  require(!spec.disentangled.log_buckets || spec.disentangled.max_distance > spec.disentangled.buckets / 2,
          fmt::format("{} buckets of distances reach {}", spec.disentangled.buckets, spec.disentangled.max_distance),
          "the largest distance must be beyond half of the buckets");
  require(spec.positions != PositionScheme::rope && !spec.causal && spec.window == 0 && spec.kv_heads == spec.heads,
          "disentangled attention has no rotary positions, causal masks, windows or shared key heads",
          "switch these off");
}

void check_head(const TransformerSpec& spec) {
  require(spec.logit_softcap >= 0, fmt::format("the cap of logits is {}", spec.logit_softcap),
          "it must not be negative");
  if (spec.head == HeadKind::causal_lm) {
    require(spec.causal, "a causal language model sees the tokens that it predicts", "make its attention causal");
  } else if (spec.head == HeadKind::masked_lm) {
    require(spec.activation != Activation::swiglu, "a masked language model's head has a gelu",
            "choose an activation of that kind");
  } else if (spec.head == HeadKind::classifier) {
    require_positive(spec.labels, "the number of labels");
  }
}

}  // namespace

void TransformerSpec::complete() {
  require_positive(vocab, "the vocabulary size");
  require_positive(layers, "the number of layers");
  require_positive(width, "the width");
  require_positive(heads, "the number of heads");
  require_positive(mlp_width, "the MLP width");
  require_positive(max_positions, "the context");
  if (kv_heads == 0) kv_heads = heads;
  if (head_dim == 0) {
    if (width % heads != 0) {
      throw usage_error(fmt::format("width {} is not a multiple of {} heads", width, heads),
                        "choose a width that the heads divide, or give a head size");
    }
    head_dim = width / heads;
  }
  require_positive(kv_heads, "the number of key heads");
  require_positive(head_dim, "the head size");
  if (heads % kv_heads != 0) {
    throw usage_error(fmt::format("{} heads cannot share {} key heads evenly", heads, kv_heads),
                      "choose a number of key heads that divides the heads");
  }
  if (head_dim > 256) throw usage_error(fmt::format("head size {} is over 256", head_dim), "use more heads");
  require(position_offset >= 0 && (position_offset == 0 || positions == PositionScheme::learned),
          fmt::format("the first position has row {} of a table", position_offset),
          "it must be 0, or more in a learned table");
  require(token_types >= 0, fmt::format("there are {} token types", token_types), "there must be 0 (none) or more");
  check_rope(*this);
  check_norms(*this);
  check_layers(*this);
  check_disentangled(*this);
  check_head(*this);
}

TransformerSpec gpt2_spec(int64_t vocab, int64_t layers, int64_t heads, int64_t width, int64_t context, bool bias) {
  TransformerSpec spec;
  spec.vocab = vocab;
  spec.layers = layers;
  spec.heads = heads;
  spec.width = width;
  spec.mlp_width = 4 * width;
  spec.max_positions = context;
  spec.positions = PositionScheme::learned;
  spec.norm = NormKind::layer;
  spec.norm_eps = 1e-5f;
  spec.activation = Activation::gelu_tanh;
  spec.norm_bias = spec.qkv_bias = spec.out_bias = spec.mlp_bias = bias;
  return spec;
}

TransformerSpec bert_spec(int64_t vocab, int64_t layers, int64_t heads, int64_t width, int64_t context) {
  TransformerSpec spec = gpt2_spec(vocab, layers, heads, width, context);
  spec.norm_eps = 1e-12f;
  spec.norm_placement = NormPlacement::after;
  spec.final_norm = false;
  spec.embedding_norm = true;
  spec.token_types = 2;
  spec.activation = Activation::gelu_erf;
  spec.causal = false;
  spec.head = HeadKind::none;
  spec.pooling = Pooling::first;
  return spec;
}

TransformerSpec qwen3_spec(int64_t vocab, int64_t layers, int64_t heads, int64_t kv_heads, int64_t width,
                           int64_t mlp_width, int64_t context) {
  TransformerSpec spec;
  spec.vocab = vocab;
  spec.layers = layers;
  spec.heads = heads;
  spec.kv_heads = kv_heads;
  spec.width = width;
  spec.mlp_width = mlp_width;
  spec.max_positions = context;
  spec.qk_norm = true;
  return spec;
}

}  // namespace gradmill
