// SPDX-License-Identifier: Apache-2.0
// Qwen 2 and 2.5.
#include "model_files/families/qwen2.h"

#include <algorithm>

#include "model_files/families/decoder.h"
#include "model_files/families/layer_keys.h"
#include "model_files/gguf/gguf_decoder.h"

namespace gradmill {
namespace {

constexpr Architecture kArchitectures[] = {
    {"Qwen2ForCausalLM", HeadKind::causal_lm},
    {"Qwen2ForSequenceClassification", HeadKind::classifier},
    {"Qwen2Model", HeadKind::none},
};

// Windows: off, or on for the layers from max_window_layers onwards.
void read_window(const ConfigReader& reader, TransformerSpec& spec) {
  const bool on = reader.flag("use_sliding_window", false);
  const int64_t first = reader.whole("max_window_layers", 28, 0);
  // null means no window; a missing key means the default of the class.
  const int64_t usual = reader.object().contains("sliding_window") ? 0 : 4096;
  const int64_t window = on ? reader.whole("sliding_window", usual, 0) : 0;
  std::vector<bool> local(static_cast<size_t>(spec.layers));
  for (int64_t layer = 0; window > 0 && layer < spec.layers; ++layer)
    local[static_cast<size_t>(layer)] = layer >= first;
  local = read_layer_types(reader, spec.layers, std::move(local));
  const auto count = std::count(local.begin(), local.end(), true);
  if (count == 0) return;
  if (window == 0) throw reader.refusal("sliding_window", "use_sliding_window true and a window above 0");
  spec.window = window;
  if (count == spec.layers) return;
  if (spec.rope_scaling.kind != RopeScalingKind::none) {
    throw reader.refusal("use_sliding_window", "false, or true without a scaling of rotary positions");
  }
  spec.local_layers = std::move(local);
  spec.local_rope_theta = spec.rope_theta;
}

void read(const ConfigReader& reader, HfConfig& config) {
  read_qwen(reader, config);
  config.spec.qkv_bias = true;
}

TransformerSpec preset(const ModelSizes& sizes) {
  TransformerSpec spec = llama_preset(sizes);
  spec.qkv_bias = true;
  return spec;
}

}  // namespace

void read_qwen(const ConfigReader& reader, HfConfig& config) {
  read_llama_like(reader, {.vocab = 151936, .mlp_width = 22016, .positions = 32768, .kv_heads = 32}, config);
  read_window(reader, config.spec);
}

extern const Family kQwen2 = {
    .name = "qwen2",
    .params = kLlamaNames,
    .architectures = kArchitectures,
    .read = read,
    .write = write_llama_shape,
    .preset = preset,
    .gguf = {.architecture = "qwen2", .read = read_gguf_llama, .write = write_gguf_llama},
};

}  // namespace gradmill
