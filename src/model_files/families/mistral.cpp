// SPDX-License-Identifier: Apache-2.0
// Mistral: Llama with a sliding window in every layer.
#include "model_files/families/decoder.h"
#include "model_files/gguf/gguf_decoder.h"

namespace gradmill {
namespace {

constexpr Architecture kArchitectures[] = {
    {"MistralForCausalLM", HeadKind::causal_lm},
    {"MistralForSequenceClassification", HeadKind::classifier},
    {"MistralModel", HeadKind::none},
};

void read(const ConfigReader& reader, HfConfig& config) {
  read_llama_like(reader, {.mlp_width = 14336, .positions = 131072, .kv_heads = 8}, config);
  // null is no window; without the key it is the class's.
  const int64_t usual = reader.object().contains("sliding_window") ? 0 : 4096;
  config.spec.window = reader.whole("sliding_window", usual, 1);
  reader.require_absent("layer_types", "none: every layer has the window");
}

}  // namespace

// llama.cpp has no architecture of its own for it. A window is refused: its Llama has none.
extern const Family kMistral = {
    .name = "mistral",
    .params = kLlamaNames,
    .architectures = kArchitectures,
    .read = read,
    .gguf = {.architecture = "llama", .rotated_rows = true, .write = write_gguf_llama},
};

}  // namespace gradmill
