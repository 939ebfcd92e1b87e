// SPDX-License-Identifier: Apache-2.0
// config.json of a Hugging Face model as a TransformerSpec, and back. What changes the maths is read or refused.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "models/hf_names.h"
#include "models/transformer_spec.h"

namespace gradmill {

// model_type of config.json. The text part of a multimodal Gemma 3 is gemma3, too.
std::string_view name_of(HfFamily family);

// Probabilities that the model was made with.
struct DropoutRates {
  float hidden = 0;  // outputs of branches
  float embedding = 0;
  float attention = 0;
  float classifier = 0;  // before the last layer of a classifier
  float pooler = 0;      // before DeBERTa's pooler
};

struct HfConfig {
  HfFamily family = HfFamily::llama;
  std::string architecture;  // "LlamaForCausalLM"; of a file that names none, the model without a head
  TransformerSpec spec;      // complete but for `dropout`, which is the trainer's choice
  DropoutRates dropout;
  std::vector<std::string> labels;  // of a classifier, by id
  std::string problem_type;  // "regression", "single_label_classification", "multi_label_classification" or empty
  std::optional<int64_t> pad_token, bos_token;
  std::vector<int64_t> eos_tokens;
  std::string dtype;   // as the file names it ("bfloat16"); empty: not said
  std::string source;  // the file's text

  bool has_labels() const { return spec.head == HeadKind::classifier; }
};

// `where` names the file in messages. Throws a data_error that names file, key and value, and what is supported.
HfConfig read_model_config(std::string_view text, std::string_view where);

// The same body with another head: a classifier of these labels (one: a score), a language model, or none. Throws a
// usage_error for a head that the family does not have.
void set_head(HfConfig& config, HeadKind head, std::vector<std::string> labels = {});

// config.json for a model that is saved with tensors of this dtype: the source's text with the keys that training may
// change. Multimodal sources give the config of their text part.
std::string write_model_config(const HfConfig& config, DType dtype);

}  // namespace gradmill
