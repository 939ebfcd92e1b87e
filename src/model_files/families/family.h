// SPDX-License-Identifier: Apache-2.0
// Family: all that is known about one family of Hugging Face models. A family is one file in this folder and an entry
// in registry.cpp; no other code tells families apart.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "models/transformer_spec.h"

namespace gradmill {

class ConfigReader;
class GgufKeys;
class GgufMetadata;
struct HfConfig;

using NamePair = std::pair<std::string_view, std::string_view>;  // our parameter, their tensor

// How files name and store parameters. Each list names modules ("attention.out") or single tensors ("head.weight").
// Where one of our parameters is stored in several tensors, the list names each part ("attention.qkv/q").
struct ParamNames {
  // "model.": starts the names of a body's tensors in models that have a head. Files of a body alone
  // (HeadKind::none), and many older ones, do without.
  std::string_view prefix;
  std::string_view layer;  // "layers."
  std::span<const NamePair> body, inner, heads;
  bool layers_transposed = false;  // matrices of layers are stored as (in, out)
  bool always_biased = false;      // files have all biases: of a model without them, zeros
};

// A class of transformers, and its head.
struct Architecture {
  std::string_view name;  // "LlamaForCausalLM"
  HeadKind head = HeadKind::none;
  PoolerKind pooler = PoolerKind::none;  // for classifiers
  bool classifier_bias = false;
};

// A model that is trained from scratch, as the settings describe it. 0 means the family's usual value.
struct ModelSizes {
  int64_t vocab = 0, layers = 0, heads = 0, kv_heads = 0, width = 0, mlp_width = 0, context = 0;
  bool bias = true;
};

// How llama.cpp stores a family. Tensor names follow from ParamNames (see gguf/gguf_names.h).
struct GgufForm {
  std::string_view architecture;   // general.architecture; empty: there is no such form
  bool rotated_rows = false;       // rows of a head's q and k lie in pairs, not in halves
  bool norms_hold_offset = false;  // norm weights are stored with spec.norm_offset added
  // The file's keys as those of config.json, and the spec as keys of the file, beyond what all families share. Throw
  // for what the other side has no form for.
  void (*read)(const GgufKeys& keys, nlohmann::ordered_json& json) = nullptr;
  void (*write)(GgufMetadata& metadata, const std::string& prefix, const TransformerSpec& spec) = nullptr;
};

struct Family {
  std::string_view name;        // model_type of config.json
  std::string_view multimodal;  // model_type of models whose text_config is of this family; empty: there are none
  ParamNames params;
  // If several classes have the same head, the first is the one that is written.
  std::span<const Architecture> architectures;
  // Fills in spec and dropout from a config.json, except for the head. Throws a data_error for what cannot be used.
  void (*read)(const ConfigReader& reader, HfConfig& config) = nullptr;
  // Writes the keys of config.json that say what `read` reads: for models without a config.json of their own. Null
  // where every model has one.
  void (*write)(const TransformerSpec& spec, nlohmann::ordered_json& json) = nullptr;
  // The spec of a model that is trained from scratch; null: such models come from files only.
  TransformerSpec (*preset)(const ModelSizes& sizes) = nullptr;
  GgufForm gguf;

  // Null if there is none.
  const Architecture* find_architecture(std::string_view architecture) const;
  const Architecture* find_architecture(HeadKind head) const;
  // For messages.
  std::string architecture_names() const;
};

}  // namespace gradmill
