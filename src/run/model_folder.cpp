// SPDX-License-Identifier: Apache-2.0
#include "run/model_folder.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "adapters/peft_folder.h"
#include "core/error.h"

namespace gradmill {
namespace {

// Calls visit(hugging face tensor, view of our rows that it holds) for every stored tensor of a parameter.
template <class Visit>
void visit_tensors(const Transformer& model, HfFamily family, ParamId id, const TensorView& whole, Visit&& visit) {
  int64_t begin = 0;
  for (const HfTensor& tensor : hf_tensors(family, model, id)) {
    visit(tensor, whole.slice_rows(begin, begin + tensor.rows));
    begin += tensor.rows;
  }
}

// Does the same for all parameters that have a master.
template <class Visit>
void visit_tensors(const Transformer& model, HfFamily family, const TensorView& masters, Visit&& visit) {
  for (ParamId id = 0; id < model.params().size(); ++id) {
    const TensorView whole = model.params().view(id, masters);
    if (whole.defined())
      visit_tensors(model, family, id, whole, visit);  // otherwise it is frozen, and the base's files have it
  }
}

// Loads the weights of a checkpoint into masters.
void load_masters(const Checkpoint& checkpoint, const Transformer& model, const RunModel& run_model,
                  const TensorView& masters) {
  if (run_model.adapters) {
    load_adapter_tensors(checkpoint.tensors(kAdapterFile), run_model.family, model, masters);
  } else {
    load_model_tensors(checkpoint.tensors(kModelFile), model, run_model.family, masters);
  }
}

// Loads a session without masters, parameter by parameter. `trained` is the model of the run, which had masters.
void load_frozen(const Checkpoint& checkpoint, const Transformer& trained, HfFamily family, Session& session) {
  const TensorView averages = find_averages(checkpoint, trained);
  session.write_weights([&](ExecContext& ctx, Weights& weights) {
    for (ParamId id = 0; id < trained.params().size(); ++id) {
      if (averages.defined()) {
        weights.load(ctx, id, trained.params().view(id, averages));
        continue;
      }
      const ParamSpec& spec = trained.params().spec(id);
      std::vector<float> values(static_cast<size_t>(spec.numel()));
      visit_tensors(trained, family, id, TensorView(values.data(), DType::fp32, spec.shape()),
                    [&](const HfTensor& tensor, const TensorView& view) {
                      checkpoint.tensors(kModelFile).copy_to(tensor.name, view, tensor.transposed);
                    });
      weights.set(ctx, id, values.data());
    }
    if (averages.defined()) checkpoint.tensors(kStateFile).check();
    weights.refresh_compute(ctx);
  });
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
          {"attn_pdrop", 0.0}};
}

nlohmann::json llama_config(const TransformerSpec& spec) {
  const char* const kind = spec.qk_norm ? "qwen3" : spec.qkv_bias ? "qwen2" : "llama";
  const char* const model = spec.qk_norm ? "Qwen3ForCausalLM" : spec.qkv_bias ? "Qwen2ForCausalLM" : "LlamaForCausalLM";
  return {{"architectures", {model}},
          {"model_type", kind},
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

nlohmann::json bert_config(const TransformerSpec& spec) {
  return {{"architectures", {"BertModel"}},
          {"model_type", "bert"},
          {"max_position_embeddings", spec.max_positions},
          {"hidden_size", spec.width},
          {"num_hidden_layers", spec.layers},
          {"num_attention_heads", spec.heads},
          {"intermediate_size", spec.mlp_width},
          {"hidden_act", "gelu"},
          {"layer_norm_eps", spec.norm_eps},
          {"type_vocab_size", spec.token_types},
          {"hidden_dropout_prob", 0.0},
          {"attention_probs_dropout_prob", 0.0}};
}

// The class of transformers for a head with labels.
std::string classifier_of(const std::string& architecture) {
  for (const char* const end : {"LMHeadModel", "ForCausalLM", "Model"}) {
    if (architecture.ends_with(end)) {
      return architecture.substr(0, architecture.size() - std::strlen(end)) + "ForSequenceClassification";
    }
  }
  return architecture;
}

void add_labels(nlohmann::json& json, const Task& task) {
  json["architectures"] = {classifier_of(json["architectures"][0])};
  json["problem_type"] = task.problem_type();
  const LabelMap labels(task.output_names());
  json["id2label"] = nlohmann::json::parse(labels.id2label_json());
  json["label2id"] = nlohmann::json::parse(labels.label2id_json());
}

}  // namespace

HfFamily family_of(const TransformerSpec& spec) {
  if (spec.norm_placement == NormPlacement::after) return HfFamily::bert;
  return spec.positions == PositionScheme::learned ? HfFamily::gpt2 : HfFamily::llama;
}

std::vector<NamedTensor> model_tensors(const Transformer& model, HfFamily family, const TensorView& masters) {
  std::vector<NamedTensor> tensors;
  visit_tensors(model, family, masters, [&](const HfTensor& tensor, const TensorView& view) {
    tensors.push_back({tensor.name, view, tensor.transposed});
  });
  for (const HfTensor& tensor : hf_absent_biases(family, model)) {
    tensors.push_back({tensor.name, TensorView(nullptr, DType::fp32, {tensor.rows})});
  }
  return tensors;
}

void load_model_tensors(const SafeTensors& file, const Transformer& model, HfFamily family, const TensorView& masters) {
  visit_tensors(model, family, masters, [&](const HfTensor& tensor, const TensorView& view) {
    file.copy_to(tensor.name, view, tensor.transposed);
  });
}

CheckpointFile weights_file(const RunModel& run_model, const Transformer& model, const TensorView& masters) {
  if (run_model.adapters) return {kAdapterFile, adapter_tensors(run_model.family, model, masters)};
  return {kModelFile, model_tensors(model, run_model.family, masters)};
}

std::string adapter_json(const RunModel& run_model) {
  return adapter_config_json(run_model.adapters->config, run_model.family == HfFamily::gpt2);
}

void check_same_base(const TrainState& saved, const RunModel& run_model) {
  if (saved.base_hash == run_model.base_hash()) return;
  throw data_error("these adapters were trained with other base weights than those that model.path has now",
                   "set model.path to the folder or file that the run was started with");
}

void load_session(const Checkpoint& checkpoint, const Transformer& model, const RunModel& run_model, Session& session,
                  const Session::Progress& progress) {
  const Session::HostState state = session.host_state(false);
  load_masters(checkpoint, model, run_model, state.masters);
  const SafeTensors& file = checkpoint.tensors(kStateFile);
  for (const StateTensor& tensor : state.beside) {
    if (tensor.name == Session::kAverageName && !file.contains(tensor.name)) {
      std::memcpy(tensor.view.data, state.masters.data, tensor.view.bytes());
    } else {
      file.copy_to(tensor.name, tensor.view);
    }
  }
  session.restore(state, progress);
}

TensorView find_averages(const Checkpoint& checkpoint, const Transformer& trained) {
  const SafeTensors& state = checkpoint.tensors(kStateFile);
  if (!state.contains(Session::kAverageName)) return {};
  const TensorView averages = state.at(Session::kAverageName);
  if (averages.dtype != DType::fp32 || averages.numel() != trained.params().flat_size()) {
    throw data_error(fmt::format("{}: the size of {} does not match the model",
                                 (checkpoint.folder() / kStateFile).string(), Session::kAverageName),
                     "choose another checkpoint");
  }
  return averages;
}

void load_inference(const Checkpoint& checkpoint, const Transformer& model, const RunModel& run_model,
                    Session& session) {
  if (model.params().flat_size() == 0) return load_frozen(checkpoint, *run_model.network, run_model.family, session);
  const Session::HostState state = session.host_state(false);
  const TensorView averages = find_averages(checkpoint, model);
  if (averages.defined()) {
    std::memcpy(state.masters.data, averages.data, averages.bytes());
    checkpoint.tensors(kStateFile).check();
  } else {
    load_masters(checkpoint, model, run_model, state.masters);
  }
  session.restore(state, {});
}

std::string model_config_json(const TransformerSpec& run_model, std::optional<int32_t> eos, const Task& task) {
  TransformerSpec spec = run_model;
  spec.complete();
  const HfFamily family = family_of(spec);
  nlohmann::json json = family == HfFamily::gpt2   ? gpt2_config(spec)
                        : family == HfFamily::bert ? bert_config(spec)
                                                   : llama_config(spec);
  json["vocab_size"] = spec.vocab;
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = eos ? nlohmann::json(*eos) : nlohmann::json();
  json["tie_word_embeddings"] = spec.tied;
  json["initializer_range"] = spec.init_std;
  json["dtype"] = json["torch_dtype"] = "float32";
  if (!task.predicts_tokens()) add_labels(json, task);
  if (task.predicts_hidden_tokens()) json["architectures"] = {"BertForMaskedLM"};
  return json.dump(2) + "\n";
}

}  // namespace gradmill
