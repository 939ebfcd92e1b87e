// SPDX-License-Identifier: Apache-2.0
// Specifications: checks, and the shapes of the two decoder styles.
#include "models/transformer.h"

namespace gradmill {
namespace {

void require_positive(int64_t value, std::string_view what) {
  if (value > 0) return;
  throw usage_error(fmt::format("{} is {}", what, value), "it must be at least 1");
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
  if (positions == PositionScheme::rope && head_dim % 2 != 0) {
    throw usage_error(fmt::format("rotary positions need an even head size, not {}", head_dim),
                      "change width or heads");
  }
  if (head_dim > 256) throw usage_error(fmt::format("head size {} is over 256", head_dim), "use more heads");
  if (window < 0) throw usage_error(fmt::format("the attention window is {}", window), "it must be 0 (off) or more");
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
