// SPDX-License-Identifier: Apache-2.0
#include "model_files/architectures.h"

#include <algorithm>
#include <array>

namespace gradmill {
namespace {

constexpr HeadKind kCausal = HeadKind::causal_lm, kMasked = HeadKind::masked_lm, kClassifier = HeadKind::classifier,
                   kNone = HeadKind::none;

constexpr std::array kArchitectures = {
    Architecture{"GPT2LMHeadModel", HfFamily::gpt2, kCausal},
    Architecture{"GPT2ForSequenceClassification", HfFamily::gpt2, kClassifier},
    Architecture{"GPT2Model", HfFamily::gpt2, kNone},
    Architecture{"LlamaForCausalLM", HfFamily::llama, kCausal},
    Architecture{"LlamaForSequenceClassification", HfFamily::llama, kClassifier},
    Architecture{"LlamaModel", HfFamily::llama, kNone},
    Architecture{"Qwen2ForCausalLM", HfFamily::qwen2, kCausal},
    Architecture{"Qwen2ForSequenceClassification", HfFamily::qwen2, kClassifier},
    Architecture{"Qwen2Model", HfFamily::qwen2, kNone},
    Architecture{"Qwen3ForCausalLM", HfFamily::qwen3, kCausal},
    Architecture{"Qwen3ForSequenceClassification", HfFamily::qwen3, kClassifier},
    Architecture{"Qwen3Model", HfFamily::qwen3, kNone},
    Architecture{"Gemma3ForCausalLM", HfFamily::gemma3, kCausal},
    Architecture{"Gemma3ForConditionalGeneration", HfFamily::gemma3, kCausal},
    Architecture{"Gemma3TextForSequenceClassification", HfFamily::gemma3, kClassifier},
    Architecture{"Gemma3ForSequenceClassification", HfFamily::gemma3, kClassifier},
    Architecture{"Gemma3TextModel", HfFamily::gemma3, kNone},
    Architecture{"Gemma3Model", HfFamily::gemma3, kNone},
    Architecture{"BertForMaskedLM", HfFamily::bert, kMasked},
    Architecture{"BertForPreTraining", HfFamily::bert, kMasked},
    Architecture{"BertForSequenceClassification", HfFamily::bert, kClassifier, PoolerKind::tanh, true},
    Architecture{"BertModel", HfFamily::bert, kNone},
    Architecture{"DebertaV2ForMaskedLM", HfFamily::deberta_v2, kMasked},
    Architecture{"DebertaV2ForSequenceClassification", HfFamily::deberta_v2, kClassifier, PoolerKind::gelu, true},
    Architecture{"DebertaV2Model", HfFamily::deberta_v2, kNone},
    Architecture{"ModernBertForMaskedLM", HfFamily::modernbert, kMasked},
    Architecture{"ModernBertForSequenceClassification", HfFamily::modernbert, kClassifier, PoolerKind::gelu_norm, true},
    Architecture{"ModernBertModel", HfFamily::modernbert, kNone},
};

template <class Matches>
const Architecture* find_if(Matches matches) {
  const auto found = std::find_if(kArchitectures.begin(), kArchitectures.end(), matches);
  return found == kArchitectures.end() ? nullptr : &*found;
}

}  // namespace

const Architecture* find_architecture(HfFamily kind, std::string_view name) {
  return find_if([&](const Architecture& entry) { return entry.kind == kind && entry.name == name; });
}

const Architecture* find_architecture(HfFamily kind, HeadKind head) {
  return find_if([&](const Architecture& entry) { return entry.kind == kind && entry.head == head; });
}

std::string architecture_names(HfFamily kind) {
  std::string names;
  for (const Architecture& entry : kArchitectures) {
    if (entry.kind != kind) continue;
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

}  // namespace gradmill
