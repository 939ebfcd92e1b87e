// SPDX-License-Identifier: Apache-2.0
// Reads config.json of a Hugging Face model into a TransformerSpec, and writes it. Keys that change the maths are read
// or refused.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "models/hf_names.h"
#include "models/transformer_spec.h"

namespace gradmill {

// model_type in config.json. The text part of a multimodal Gemma 3 is also gemma3.
std::string_view name_of(HfFamily family);

// The dropout probabilities in the model's config.
struct DropoutRates {
  float hidden = 0;  // outputs of branches
  float embedding = 0;
  float attention = 0;
  float classifier = 0;  // before the last layer of a classifier
  float pooler = 0;      // before DeBERTa's pooler
};

struct HfConfig {
  HfFamily family = HfFamily::llama;
  std::string architecture;  // "LlamaForCausalLM"; if the file names none, the class without a head
  TransformerSpec spec;      // complete except for `dropout`, which the trainer chooses
  DropoutRates dropout;
  std::vector<std::string> labels;  // for a classifier, by id
  std::string problem_type;  // "regression", "single_label_classification", "multi_label_classification" or empty
  std::optional<int64_t> pad_token, bos_token;
  std::vector<int64_t> eos_tokens;
  std::string dtype;   // as the file names it ("bfloat16"); empty: not given
  std::string source;  // the file's text

  bool has_labels() const { return spec.head == HeadKind::classifier; }
};

// `where` names the file in messages. Throws a data_error that names file, key and value, and what is supported.
HfConfig read_model_config(std::string_view text, std::string_view where);

// The same body with another head: a classifier with these labels (one label: a score), a language model, or none.
// Throws a usage_error for a head that the family does not have.
void set_head(HfConfig& config, HeadKind head, std::vector<std::string> labels = {});

// config.json for a model saved with tensors of this dtype: the source's text with updated values for the keys that
// training may change. For a multimodal source it is the config of the text part.
std::string write_model_config(const HfConfig& config, DType dtype);

}  // namespace gradmill
