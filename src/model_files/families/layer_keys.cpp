// SPDX-License-Identifier: Apache-2.0
#include "model_files/families/layer_keys.h"

namespace gradmill {

Activation read_gelu(const ConfigReader& reader, std::string_view key, std::string_view fallback, bool gated) {
  // The first two use the error function, the others the same formula with a hyperbolic tangent.
  const bool erf =
      reader.choice(key, fallback, {"gelu", "gelu_python", "gelu_new", "gelu_pytorch_tanh", "gelu_fast"}) < 2;
  if (gated) return erf ? Activation::geglu_erf : Activation::geglu_tanh;
  return erf ? Activation::gelu_erf : Activation::gelu_tanh;
}

std::vector<bool> read_layer_types(const ConfigReader& reader, int64_t layers, std::vector<bool> expected) {
  const nlohmann::json& types = reader.value("layer_types");
  if (types.is_null()) return expected;
  const std::string supported = fmt::format("{} times full_attention or sliding_attention", layers);
  if (!types.is_array() || std::ssize(types) != layers) throw reader.refusal("layer_types", supported);
  std::vector<bool> local;
  for (const nlohmann::json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") throw reader.refusal("layer_types", supported);
    local.push_back(type == "sliding_attention");
  }
  return local;
}

}  // namespace gradmill
