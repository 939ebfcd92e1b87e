// SPDX-License-Identifier: Apache-2.0
#include "train/model_folder.h"

#include <cstring>
#include <nlohmann/json.hpp>

namespace gradmill {
namespace {

// Calls visit(hugging face tensor, view of our rows that it holds) for every stored tensor.
template <class Visit>
void visit_tensors(const Transformer& model, const Weights& weights, Visit&& visit) {
  const HfFamily family = family_of(model.spec());
  for (ParamId id = 0; id < model.params().size(); ++id) {
    const TensorView whole = weights.master(id);
    int64_t begin = 0;
    for (const HfTensor& tensor : hf_tensors(family, model, id)) {
      visit(tensor, whole.slice_rows(begin, begin + tensor.rows));
      begin += tensor.rows;
    }
  }
}

nlohmann::json gpt2_config(const TransformerSpec& spec) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_positions", spec.max_positions},
          {"n_embd", spec.width},
          {"n_layer", spec.layers},
          {"n_head", spec.heads},
          {"n_inner", spec.mlp_width},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", spec.norm_eps},
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr}};
}

nlohmann::json qwen3_config(const TransformerSpec& spec) {
  return {{"architectures", {spec.qk_norm ? "Qwen3ForCausalLM" : "LlamaForCausalLM"}},
          {"model_type", spec.qk_norm ? "qwen3" : "llama"},
          {"max_position_embeddings", spec.max_positions},
          {"hidden_size", spec.width},
          {"num_hidden_layers", spec.layers},
          {"num_attention_heads", spec.heads},
          {"num_key_value_heads", spec.kv_heads},
          {"head_dim", spec.head_dim},
          {"intermediate_size", spec.mlp_width},
          {"hidden_act", "silu"},
          {"rms_norm_eps", spec.norm_eps},
          {"rope_theta", spec.rope_theta},
          {"attention_bias", false}};
}

}  // namespace

HfFamily family_of(const TransformerSpec& spec) {
  return spec.positions == PositionScheme::learned ? HfFamily::gpt2 : HfFamily::llama;
}

std::vector<NamedTensor> model_tensors(const Transformer& model, const Weights& weights) {
  std::vector<NamedTensor> tensors;
  visit_tensors(model, weights, [&](const HfTensor& tensor, const TensorView& view) {
    tensors.push_back({tensor.name, view, tensor.transposed});
  });
  return tensors;
}

void load_model_tensors(const SafeTensors& file, const Transformer& model, const Weights& weights) {
  visit_tensors(model, weights, [&](const HfTensor& tensor, const TensorView& view) {
    file.copy_to(tensor.name, view, tensor.transposed);
  });
}

void load_session(const Checkpoint& checkpoint, const Transformer& model, Session& session, uint32_t updates) {
  load_model_tensors(checkpoint.tensors(kModelFile), model, session.weights());
  const SafeTensors& file = checkpoint.tensors(kStateFile);
  for (const Session::StateTensor& tensor : session.optimizer_state()) {
    if (tensor.name == Session::kAverageName && !file.contains(tensor.name)) {
      std::memcpy(tensor.view.data, session.weights().flat_master().data, tensor.view.bytes());
    } else {
      file.copy_to(tensor.name, tensor.view);
    }
  }
  session.restored(updates);
}

std::string model_config_json(const TransformerSpec& spec) {
  nlohmann::json json = family_of(spec) == HfFamily::gpt2 ? gpt2_config(spec) : qwen3_config(spec);
  json["vocab_size"] = spec.vocab;
  json["tie_word_embeddings"] = spec.tied;
  json["initializer_range"] = spec.init_std;
  json["dtype"] = json["torch_dtype"] = "float32";
  return json.dump(2) + "\n";
}

}  // namespace gradmill
