// SPDX-License-Identifier: Apache-2.0
// HfConfig: what a config.json says of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_files/families/family.h"

namespace gradmill {

// The dropout probabilities in the model's config.
struct DropoutRates {
  float hidden = 0;  // outputs of branches
  float embedding = 0;
  float attention = 0;
  float classifier = 0;  // before the last layer of a classifier
  float pooler = 0;      // before DeBERTa's pooler
};

struct HfConfig {
  const Family* family = nullptr;  // never null in a config that was read or made
  std::string architecture;        // "LlamaForCausalLM"; if the file names none, the class without a head
  TransformerSpec spec;            // complete except for `dropout`, which the trainer chooses
  DropoutRates dropout;
  std::vector<std::string> labels;  // for a classifier, by id
  std::string problem_type;  // "regression", "single_label_classification", "multi_label_classification" or empty
  std::optional<int64_t> pad_token, bos_token;
  std::vector<int64_t> eos_tokens;
  std::string dtype;   // as the file names it ("bfloat16"); empty: not given
  std::string source;  // the file's text; empty: the model comes from no file

  bool has_labels() const { return spec.head == HeadKind::classifier; }
};

}  // namespace gradmill
