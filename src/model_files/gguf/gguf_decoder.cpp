// SPDX-License-Identifier: Apache-2.0
#include "model_files/gguf/gguf_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "model_files/gguf/gguf_types.h"

namespace gradmill {
namespace {

using nlohmann::ordered_json;

// The file's numbers are fp32; written as doubles they would have meaningless digits.
double short_number(double value) { return std::strtod(fmt::format("{}", static_cast<float>(value)).c_str(), nullptr); }

// llama.cpp's converter stores Llama 3's scaling as one factor per frequency. All Llama 3 models have the same
// limits, so the largest factor determines the whole rule, and the others confirm it.
ordered_json llama3_scaling(const GgufKeys& keys, const GgufTensor& factors, double theta, int64_t head_dim) {
  constexpr double kLow = 1, kHigh = 4, kContext = 8192;
  const auto refused = [&] {
    return keys.file().bad("rope_freqs.weight does not hold the factors of Llama 3's scaling");
  };
  if (factors.type != static_cast<uint32_t>(GgmlType::f32) || factors.dims != std::vector{head_dim / 2})
    throw refused();
  std::vector<float> values(static_cast<size_t>(head_dim / 2));
  dequantise(GgmlType::f32, factors.bytes, values.data());
  if (values.empty()) throw refused();
  const double factor = *std::max_element(values.begin(), values.end());
  if (!(factor >= 1 && factor < 1e6)) throw refused();
  for (size_t j = 0; j < values.size(); ++j) {
    const double wavelength = 2 * M_PI * std::pow(theta, 2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
    const double smooth = (kContext / wavelength - kLow) / (kHigh - kLow);
    const double expected = wavelength < kContext / kHigh  ? 1
                            : wavelength > kContext / kLow ? factor
                                                           : 1 / ((1 - smooth) / factor + smooth);
    if (!(std::abs(values[j] - expected) <= 1e-3 * expected)) throw refused();
  }
  return {{"rope_type", "llama3"},
          {"factor", short_number(factor)},
          {"low_freq_factor", kLow},
          {"high_freq_factor", kHigh},
          {"original_max_position_embeddings", static_cast<int64_t>(kContext)}};
}

void read_rope_scaling(const GgufKeys& keys, int64_t head_dim, ordered_json& json) {
  if (const GgufTensor* factors = keys.find_tensor("rope_freqs.weight")) {
    json["rope_scaling"] = llama3_scaling(keys, *factors, json["rope_theta"].get<double>(), head_dim);
    return;
  }
  const std::string_view type = keys.text("rope.scaling.type", "none");
  if (type == "none") return;
  if (type != "linear" && type != "yarn") throw keys.refusal("rope.scaling.type", "none, linear, yarn");
  ordered_json scaling = {{"rope_type", type}, {"factor", keys.number("rope.scaling.factor")}};
  if (type == "yarn" && keys.find("rope.scaling.original_context_length") != nullptr) {
    scaling["original_max_position_embeddings"] = keys.whole("rope.scaling.original_context_length");
  }
  json["rope_scaling"] = std::move(scaling);
}

void write_rope(GgufMetadata& metadata, const std::string& prefix, const TransformerSpec& spec) {
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
        throw no_gguf_form("yarn with an attention_factor or betas of its own");
      }
      metadata.add_text(prefix + "rope.scaling.type", "yarn");
      metadata.add_number(prefix + "rope.scaling.factor", scaling.factor);
      metadata.add_whole(prefix + "rope.scaling.original_context_length", scaling.original_context);
      return;
    case RopeScalingKind::dynamic:
      throw no_gguf_form("dynamic scaling of rotary positions");
  }
}

}  // namespace

double GgufKeys::number(std::string_view name, std::optional<double> fallback) const {
  return short_number(file_.number(key(name), fallback));
}

void GgufKeys::refuse_window() const {
  constexpr std::string_view kWindow = "attention.sliding_window";
  if (whole(kWindow, 0) > 0) throw refusal(kWindow, "none for this architecture");
}

const GgufTensor* GgufKeys::find_tensor(std::string_view name) const {
  const auto found = std::find_if(file_.tensors().begin(), file_.tensors().end(),
                                  [&](const GgufTensor& tensor) { return tensor.name == name; });
  return found == file_.tensors().end() ? nullptr : &*found;
}

void read_gguf_decoder(const GgufKeys& keys, double usual_theta, ordered_json& json) {
  const int64_t width = keys.whole("embedding_length"), heads = keys.whole("attention.head_count");
  if (heads < 1) throw keys.refusal("attention.head_count", "1 or more");
  const int64_t head_dim = keys.whole("attention.key_length", std::max<int64_t>(width / heads, 1));
  if (keys.whole("attention.value_length", head_dim) != head_dim) {
    throw keys.refusal("attention.value_length", "the length of keys");
  }
  if (keys.whole("rope.dimension_count", head_dim) != head_dim) {
    throw keys.refusal("rope.dimension_count", fmt::format("{}, all of a head", head_dim));
  }
  json["max_position_embeddings"] = keys.whole("context_length");
  json["hidden_size"] = width;
  json["num_hidden_layers"] = keys.whole("block_count");
  json["num_attention_heads"] = heads;
  json["num_key_value_heads"] = keys.whole("attention.head_count_kv", heads);
  json["head_dim"] = head_dim;
  json["intermediate_size"] = keys.whole("feed_forward_length");
  json["rms_norm_eps"] = keys.number("attention.layer_norm_rms_epsilon", 1e-6);
  json["rope_theta"] = keys.number("rope.freq_base", usual_theta);
  read_rope_scaling(keys, head_dim, json);
}

void read_gguf_llama(const GgufKeys& keys, ordered_json& json) {
  keys.refuse_window();
  read_gguf_decoder(keys, 1e4, json);
  json["hidden_act"] = "silu";
}

bool has_gguf_out_bias(const GgufKeys& keys) { return keys.find_tensor("blk.0.attn_output.bias") != nullptr; }

void write_gguf_decoder(GgufMetadata& metadata, const std::string& prefix, const TransformerSpec& spec) {
  metadata.add_whole(prefix + "attention.head_count_kv", spec.kv_heads);
  metadata.add_whole(prefix + "attention.key_length", spec.head_dim);
  metadata.add_whole(prefix + "attention.value_length", spec.head_dim);
  metadata.add_number(prefix + "attention.layer_norm_rms_epsilon", spec.norm_eps);
  write_rope(metadata, prefix, spec);
}

void write_gguf_llama(GgufMetadata& metadata, const std::string& prefix, const TransformerSpec& spec) {
  write_gguf_decoder(metadata, prefix, spec);
  if (spec.window > 0) throw no_gguf_form("a sliding window in this architecture");
}

Error no_gguf_form(std::string_view what) {
  return usage_error(fmt::format("GGUF cannot express {}", what), "export as hf instead");
}

}  // namespace gradmill
