// SPDX-License-Identifier: Apache-2.0
// Turns GGUF's metadata into a config.json, so that a single reader decides what a model is.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "model_files/gguf/gguf_model.h"
#include "model_files/gguf/gguf_names.h"

namespace gradmill {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kArchitectureNames = "llama, qwen2, qwen3, gemma3, gpt2";

// The file's numbers are fp32; written as doubles they would have meaningless digits.
double short_number(double value) { return std::strtod(fmt::format("{}", static_cast<float>(value)).c_str(), nullptr); }

class ConfigMaker {
 public:
  ConfigMaker(const GgufFile& file, HfFamily kind, std::string prefix)
      : file_(file), kind_(kind), prefix_(std::move(prefix)) {}

  ordered_json make() {
    check_supported();
    ordered_json json;
    json["architectures"] = {std::string(model_class())};
    json["model_type"] = name_of(kind_);
    json["vocab_size"] = embedding().dims[0];
    kind_ == HfFamily::gpt2 ? add_gpt2(json) : add_llama(json);
    json["tie_word_embeddings"] = find_tensor("output.weight") == nullptr;
    const auto add_token = [&](const char* name, const char* key) {
      if (file_.find(key) != nullptr) json[name] = file_.whole(key);
    };
    add_token("bos_token_id", "tokenizer.ggml.bos_token_id");
    add_token("eos_token_id", "tokenizer.ggml.eos_token_id");
    add_token("pad_token_id", "tokenizer.ggml.padding_token_id");
    return json;
  }

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", prefix_, name); }

  const GgufTensor* find_tensor(std::string_view name) const {
    const auto found = std::find_if(file_.tensors().begin(), file_.tensors().end(),
                                    [&](const GgufTensor& tensor) { return tensor.name == name; });
    return found == file_.tensors().end() ? nullptr : &*found;
  }

  const GgufTensor& embedding() const {
    const GgufTensor* tensor = find_tensor("token_embd.weight");
    if (tensor == nullptr || tensor->dims.size() != 2) throw file_.bad("no matrix token_embd.weight");
    return *tensor;
  }

  std::string_view model_class() const {
    switch (kind_) {
      case HfFamily::gpt2:
        return "GPT2LMHeadModel";
      case HfFamily::qwen2:
        return "Qwen2ForCausalLM";
      case HfFamily::qwen3:
        return "Qwen3ForCausalLM";
      case HfFamily::gemma3:
        return "Gemma3ForCausalLM";
      default:
        return "LlamaForCausalLM";
    }
  }

  void check_supported() const {
    if (file_.whole(key("expert_count"), 0) > 0) throw file_.refusal(key("expert_count"), "models without experts");
    if (!file_.flag(key("attention.causal"), true)) throw file_.refusal(key("attention.causal"), "true");
    if (kind_ != HfFamily::gemma3 && file_.whole(key("attention.sliding_window"), 0) > 0) {
      throw file_.refusal(key("attention.sliding_window"), "none for this architecture");
    }
  }

  void add_gpt2(ordered_json& json) const {
    json["n_positions"] = file_.whole(key("context_length"));
    json["n_embd"] = file_.whole(key("embedding_length"));
    json["n_layer"] = file_.whole(key("block_count"));
    json["n_head"] = file_.whole(key("attention.head_count"));
    json["n_inner"] = file_.whole(key("feed_forward_length"));
    json["activation_function"] = "gelu_new";
    json["layer_norm_epsilon"] = short_number(file_.number(key("attention.layer_norm_epsilon"), 1e-5));
  }

  void add_llama(ordered_json& json) const {
    const int64_t width = file_.whole(key("embedding_length")), heads = file_.whole(key("attention.head_count"));
    if (heads < 1) throw file_.refusal(key("attention.head_count"), "1 or more");
    const int64_t head_dim = file_.whole(key("attention.key_length"), std::max<int64_t>(width / heads, 1));
    if (file_.whole(key("attention.value_length"), head_dim) != head_dim) {
      throw file_.refusal(key("attention.value_length"), "the length of keys");
    }
    if (file_.whole(key("rope.dimension_count"), head_dim) != head_dim) {
      throw file_.refusal(key("rope.dimension_count"), fmt::format("{}, all of a head", head_dim));
    }
    json["max_position_embeddings"] = file_.whole(key("context_length"));
    json["hidden_size"] = width;
    json["num_hidden_layers"] = file_.whole(key("block_count"));
    json["num_attention_heads"] = heads;
    json["num_key_value_heads"] = file_.whole(key("attention.head_count_kv"), heads);
    json["head_dim"] = head_dim;
    json["intermediate_size"] = file_.whole(key("feed_forward_length"));
    json["rms_norm_eps"] = short_number(file_.number(key("attention.layer_norm_rms_epsilon"), 1e-6));
    json["rope_theta"] = short_number(file_.number(key("rope.freq_base"), kind_ == HfFamily::gemma3 ? 1e6 : 1e4));
    add_rope_scaling(json, head_dim);
    if (kind_ == HfFamily::gemma3) return add_gemma(json, width, heads, head_dim);
    json["hidden_act"] = "silu";
    if (kind_ == HfFamily::llama || kind_ == HfFamily::qwen3) {
      json["attention_bias"] = find_tensor("blk.0.attn_output.bias") != nullptr;
    }
  }

  void add_gemma(ordered_json& json, int64_t width, int64_t heads, int64_t head_dim) const {
    json["hidden_activation"] = "gelu_pytorch_tanh";
    json["sliding_window"] = file_.whole(key("attention.sliding_window"));
    json["sliding_window_pattern"] = 6;
    if (const GgufValue* pattern = file_.find(key("attention.sliding_window_pattern"))) {
      if (!std::holds_alternative<uint64_t>(*pattern)) {
        throw file_.refusal(key("attention.sliding_window_pattern"), "one whole number");
      }
      json["sliding_window_pattern"] = file_.whole(key("attention.sliding_window_pattern"));
    }
    json["rope_local_base_freq"] = short_number(file_.number(key("rope.freq_base_swa"), 1e4));
    // The family's largest model scales by width and heads, the others by the head's size; the files do not tell which.
    constexpr int64_t kLayersOf27B = 62;
    const bool largest = file_.whole(key("block_count")) == kLayersOf27B;
    json["query_pre_attn_scalar"] = largest ? width / heads : head_dim;
    if (file_.find(key("final_logit_softcapping")) != nullptr) {
      json["final_logit_softcapping"] = short_number(file_.number(key("final_logit_softcapping")));
    }
  }

  void add_rope_scaling(ordered_json& json, int64_t head_dim) const {
    if (const GgufTensor* factors = find_tensor("rope_freqs.weight")) {
      json["rope_scaling"] = llama3_scaling(*factors, json["rope_theta"].get<double>(), head_dim);
      return;
    }
    const std::string_view type = file_.text(key("rope.scaling.type"), "none");
    if (type == "none") return;
    if (type != "linear" && type != "yarn") throw file_.refusal(key("rope.scaling.type"), "none, linear, yarn");
    ordered_json scaling = {{"rope_type", type}, {"factor", short_number(file_.number(key("rope.scaling.factor")))}};
    if (type == "yarn" && file_.find(key("rope.scaling.original_context_length")) != nullptr) {
      scaling["original_max_position_embeddings"] = file_.whole(key("rope.scaling.original_context_length"));
    }
    json["rope_scaling"] = std::move(scaling);
  }

  // llama.cpp's converter stores Llama 3's scaling as one factor per frequency. All Llama 3 models have the same
  // limits, so the largest factor determines the whole rule, and the others confirm it.
  ordered_json llama3_scaling(const GgufTensor& factors, double theta, int64_t head_dim) const {
    constexpr double kLow = 1, kHigh = 4, kContext = 8192;
    const auto refused = [&] { return file_.bad("rope_freqs.weight does not hold the factors of Llama 3's scaling"); };
    if (factors.type != static_cast<uint32_t>(GgmlType::f32) || factors.dims != std::vector{head_dim / 2})
      throw refused();
    std::vector<float> values(static_cast<size_t>(head_dim / 2));
    dequantise(GgmlType::f32, factors.bytes, values.data());
    if (values.empty()) throw refused();
    const double factor = *std::max_element(values.begin(), values.end());
    if (!(factor >= 1 && factor < 1e6)) throw refused();
    for (size_t j = 0; j < values.size(); ++j) {
      const double wavelength =
          2 * M_PI * std::pow(theta, 2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
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

  const GgufFile& file_;
  HfFamily kind_;
  std::string prefix_;
};

}  // namespace

std::string gguf_config_json(const GgufFile& file) {
  const std::string_view name = file.text("general.architecture");
  const std::optional<HfFamily> kind = kind_of_architecture(name);
  if (!kind) throw file.refusal("general.architecture", kArchitectureNames);
  return ConfigMaker(file, *kind, std::string(name)).make().dump(2) + "\n";
}

}  // namespace gradmill
