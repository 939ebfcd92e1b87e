// SPDX-License-Identifier: Apache-2.0
#include "model_files/families/rope_config.h"

#include "files/strict_json.h"

namespace gradmill {
namespace {

using nlohmann::json;

constexpr std::string_view kKinds = "default, linear, dynamic, llama3, yarn";

RopeScalingKind read_kind(const ConfigReader& reader) {
  const char* const key = reader.has("rope_type") ? "rope_type" : "type";
  const std::string name = reader.text(key, "default");
  if (name == "default") return RopeScalingKind::none;
  if (name == "linear") return RopeScalingKind::linear;
  if (name == "dynamic") return RopeScalingKind::dynamic;
  if (name == "llama3") return RopeScalingKind::llama3;
  if (name == "yarn") return RopeScalingKind::yarn;
  throw reader.refusal(key, kKinds);
}

int64_t read_original_context(const ConfigReader& reader, const TransformerSpec& spec) {
  return reader.size("original_max_position_embeddings", spec.max_positions, int64_t{1} << 31);
}

RopeScaling read_scaling(const ConfigReader& reader, const TransformerSpec& spec) {
  RopeScaling scaling;
  scaling.kind = read_kind(reader);
  if (reader.number("partial_rotary_factor", 1) != 1) throw reader.refusal("partial_rotary_factor", "1");
  if (scaling.kind == RopeScalingKind::none) return scaling;
  if (!reader.has("factor")) throw reader.refusal("factor", "a number from 1");
  scaling.factor = reader.positive("factor", 1);
  if (scaling.factor < 1) throw reader.refusal("factor", "a number from 1");
  switch (scaling.kind) {
    case RopeScalingKind::dynamic:
      scaling.original_context = spec.max_positions;
      break;
    case RopeScalingKind::llama3:
      for (const char* key : {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
        if (!reader.has(key)) throw reader.refusal(key, "a number above 0");
      }
      scaling.low_frequency = reader.positive("low_freq_factor", 1);
      scaling.high_frequency = reader.positive("high_freq_factor", 4);
      if (scaling.high_frequency <= scaling.low_frequency) {
        throw reader.refusal("high_freq_factor", "a number above low_freq_factor");
      }
      scaling.original_context = read_original_context(reader, spec);
      break;
    case RopeScalingKind::yarn:
      reader.require_absent("mscale", "yarn without it");
      reader.require_absent("mscale_all_dim", "yarn without it");
      reader.require_flag("truncate", true, true);
      scaling.beta_fast = reader.positive("beta_fast", 32);
      scaling.beta_slow = reader.positive("beta_slow", 1);
      if (reader.has("attention_factor")) scaling.attention_factor = reader.positive("attention_factor", 1);
      scaling.original_context = read_original_context(reader, spec);
      break;
    default:
      break;
  }
  return scaling;
}

// rope_theta may be next to the scaling or inside it.
float read_theta(const ConfigReader& outer, const ConfigReader* inner, std::string_view key, double fallback) {
  if (inner != nullptr && inner->has("rope_theta")) return inner->positive("rope_theta", fallback);
  return key.empty() ? static_cast<float>(fallback) : outer.positive(key, fallback);
}

// The object under a key; null if there is none.
const json* find_object(const ConfigReader& reader, std::string_view key) {
  if (!reader.has(key)) return nullptr;
  if (!reader.value(key).is_object()) throw reader.refusal(key, "an object");
  return &reader.value(key);
}

void read_flat(const ConfigReader& reader, const json* parameters, const std::string& where, const RopeKeys& keys,
               TransformerSpec& spec) {
  if (parameters == nullptr) {
    spec.rope_theta = read_theta(reader, nullptr, keys.theta, keys.theta_default);
    return;
  }
  const ConfigReader inner(*parameters, where);
  spec.rope_theta = read_theta(reader, &inner, keys.theta, keys.theta_default);
  spec.rope_scaling = read_scaling(inner, spec);
}

void read_by_layer_type(const ConfigReader& reader, const json& parameters, const std::string& where,
                        const RopeKeys& keys, TransformerSpec& spec) {
  const ConfigReader outer(parameters, where);
  read_flat(reader, find_object(outer, "full_attention"), where + ": full_attention", keys, spec);
  const json* local = find_object(outer, "sliding_attention");
  if (local == nullptr) return;
  const ConfigReader inner(*local, where + ": sliding_attention");
  spec.local_rope_theta = read_theta(reader, &inner, keys.local_theta, keys.local_theta_default);
  if (read_scaling(inner, spec).kind != RopeScalingKind::none) {
    throw inner.refusal(inner.has("rope_type") ? "rope_type" : "type", "default: layers with a window are not scaled");
  }
}

}  // namespace

void read_rope(const ConfigReader& reader, const RopeKeys& keys, TransformerSpec& spec) {
  spec.positions = PositionScheme::rope;
  if (reader.number("partial_rotary_factor", 1) != 1) throw reader.refusal("partial_rotary_factor", "1");
  spec.local_rope_theta = read_theta(reader, nullptr, keys.local_theta, keys.local_theta_default);
  const char* const key = reader.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const json* const parameters = find_object(reader, key);
  const std::string where = fmt::format("{}: {}", reader.where(), key);
  const bool nested =
      parameters != nullptr && (parameters->contains("full_attention") || parameters->contains("sliding_attention"));
  if (!nested) return read_flat(reader, parameters, where, keys, spec);
  if (!keys.by_layer_type) throw reader.refusal(key, "one set of parameters for all layers");
  read_by_layer_type(reader, *parameters, where, keys, spec);
}

}  // namespace gradmill
