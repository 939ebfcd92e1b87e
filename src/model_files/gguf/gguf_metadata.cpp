// SPDX-License-Identifier: Apache-2.0
#include "model_files/gguf/gguf_metadata.h"

#include <cmath>

#include "core/error.h"
#include "model_files/gguf/gguf_names.h"

namespace gradmill {

void GgufMetadata::append_text(std::string& to, std::string_view text) {
  append<uint64_t>(to, text.size());
  to += text;
}

void GgufMetadata::begin(std::string_view key, GgufValueType type) {
  append_text(bytes_, key);
  append(bytes_, static_cast<uint32_t>(type));
  ++count_;
}

void GgufMetadata::begin_array(std::string_view key, GgufValueType type, size_t count) {
  begin(key, GgufValueType::array);
  append(bytes_, static_cast<uint32_t>(type));
  append<uint64_t>(bytes_, count);
}

void GgufMetadata::add_text(std::string_view key, std::string_view value) {
  begin(key, GgufValueType::string);
  append_text(bytes_, value);
}

void GgufMetadata::add_whole(std::string_view key, int64_t value) {
  begin(key, GgufValueType::uint32);
  append(bytes_, static_cast<uint32_t>(value));
}

void GgufMetadata::add_number(std::string_view key, double value) {
  begin(key, GgufValueType::float32);
  append(bytes_, static_cast<float>(value));
}

void GgufMetadata::add_flag(std::string_view key, bool value) {
  begin(key, GgufValueType::boolean);
  append<uint8_t>(bytes_, value);
}

void GgufMetadata::add_texts(std::string_view key, const std::vector<std::string>& values) {
  begin_array(key, GgufValueType::string, values.size());
  for (const std::string& value : values) append_text(bytes_, value);
}

void GgufMetadata::add_types(std::string_view key, const std::vector<int32_t>& values) {
  begin_array(key, GgufValueType::int32, values.size());
  for (const int32_t value : values) append(bytes_, value);
}

void GgufMetadata::add_scores(std::string_view key, const std::vector<float>& values) {
  begin_array(key, GgufValueType::float32, values.size());
  for (const float value : values) append(bytes_, value);
}

std::string GgufMetadata::header(uint64_t num_tensors) const {
  std::string header = "GGUF";
  append<uint32_t>(header, 3);
  append<uint64_t>(header, num_tensors);
  append<uint64_t>(header, count_);
  return header + bytes_;
}

namespace {

Error no_form(std::string_view what) {
  return usage_error(fmt::format("GGUF cannot express {}", what), "export as hf instead");
}

void add_rope(GgufMetadata& metadata, const std::string& prefix, const TransformerSpec& spec) {
  metadata.add_number(prefix + "rope.freq_base", spec.rope_theta);
  metadata.add_whole(prefix + "rope.dimension_count", spec.head_dim);
  const RopeScaling& scaling = spec.rope_scaling;
  switch (scaling.kind) {
    case RopeScalingKind::none:
    case RopeScalingKind::llama3:  // its factors are written as a tensor
      return;
    case RopeScalingKind::linear:
      metadata.add_text(prefix + "rope.scaling.type", "linear");
      metadata.add_number(prefix + "rope.scaling.factor", scaling.factor);
      return;
    case RopeScalingKind::yarn:
      if (scaling.attention_factor != 0 || scaling.beta_fast != 32 || scaling.beta_slow != 1) {
        throw no_form("yarn with an attention_factor or betas of its own");
      }
      metadata.add_text(prefix + "rope.scaling.type", "yarn");
      metadata.add_number(prefix + "rope.scaling.factor", scaling.factor);
      metadata.add_whole(prefix + "rope.scaling.original_context_length", scaling.original_context);
      return;
    case RopeScalingKind::dynamic:
      throw no_form("dynamic scaling of rotary positions");
  }
}

// llama.cpp derives the layers with a window, and the scale of scores, from the family alone.
void add_gemma(GgufMetadata& metadata, const std::string& prefix, const TransformerSpec& spec) {
  for (size_t layer = 0; layer < spec.local_layers.size(); ++layer) {
    if (spec.local_layers[layer] != ((layer + 1) % 6 != 0)) throw no_form("layers with windows in another pattern");
  }
  const float usual =
      spec.layers == 62 ? static_cast<float>(spec.width / spec.heads) : static_cast<float>(spec.head_dim);
  if (std::abs(spec.attention_scale * std::sqrt(usual) - 1) > 1e-5f) throw no_form("this query_pre_attn_scalar");
  if (spec.local_rope_theta != 10000) throw no_form("this rope_local_base_freq");
  if (spec.activation != Activation::geglu_tanh) throw no_form("this activation");
  metadata.add_whole(prefix + "attention.sliding_window", spec.window);
  if (spec.logit_softcap != 0) metadata.add_number(prefix + "final_logit_softcapping", spec.logit_softcap);
}

}  // namespace

void add_model_metadata(GgufMetadata& metadata, const HfConfig& config) {
  const TransformerSpec& spec = config.spec;
  const auto architecture = architecture_of_kind(config.family);
  if (!architecture || spec.head != HeadKind::causal_lm) {
    throw no_form(fmt::format("a {}; it only has language models", config.architecture));
  }
  const std::string prefix = fmt::format("{}.", *architecture);
  metadata.add_text("general.architecture", *architecture);
  metadata.add_text("general.type", "model");
  metadata.add_whole(prefix + "context_length", spec.max_positions);
  metadata.add_whole(prefix + "embedding_length", spec.width);
  metadata.add_whole(prefix + "block_count", spec.layers);
  metadata.add_whole(prefix + "feed_forward_length", spec.mlp_width);
  metadata.add_whole(prefix + "attention.head_count", spec.heads);
  metadata.add_whole(prefix + "vocab_size", spec.vocab);
  if (config.family == HfFamily::gpt2) {
    if (spec.attention_scale == 1) throw no_form("scale_attn_weights false");
    if (spec.activation != Activation::gelu_tanh) throw no_form("this activation");
    metadata.add_number(prefix + "attention.layer_norm_epsilon", spec.norm_eps);
    return;
  }
  metadata.add_whole(prefix + "attention.head_count_kv", spec.kv_heads);
  metadata.add_whole(prefix + "attention.key_length", spec.head_dim);
  metadata.add_whole(prefix + "attention.value_length", spec.head_dim);
  metadata.add_number(prefix + "attention.layer_norm_rms_epsilon", spec.norm_eps);
  add_rope(metadata, prefix, spec);
  if (config.family == HfFamily::gemma3) return add_gemma(metadata, prefix, spec);
  if (spec.window > 0) throw no_form("a sliding window in this architecture");
  if (config.family == HfFamily::qwen3 && spec.qkv_bias) throw no_form("attention_bias in this architecture");
  if (spec.mlp_bias && config.family != HfFamily::llama) throw no_form("mlp_bias in this architecture");
}

}  // namespace gradmill
