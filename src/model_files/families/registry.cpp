// SPDX-License-Identifier: Apache-2.0
#include "model_files/families/registry.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace gradmill {

extern const Family kGpt2;
extern const Family kLlama;
extern const Family kMistral;
extern const Family kQwen2;
extern const Family kQwen3;
extern const Family kGemma3;
extern const Family kOlmo2;
extern const Family kBert;
extern const Family kRoberta;
extern const Family kXlmRoberta;
extern const Family kDebertaV2;
extern const Family kModernBert;

namespace {

constexpr std::array kFamilies = {
    &kGpt2,        // gpt2.cpp
    &kLlama,       // llama.cpp
    &kMistral,     // mistral.cpp
    &kQwen2,       // qwen2.cpp
    &kQwen3,       // qwen3.cpp
    &kGemma3,      // gemma3.cpp
    &kOlmo2,       // olmo2.cpp
    &kBert,        // bert.cpp
    &kRoberta,     // roberta.cpp
    &kXlmRoberta,  // roberta.cpp
    &kDebertaV2,   // deberta_v2.cpp
    &kModernBert,  // modernbert.cpp
};

template <class Matches>
const Family* find_if(Matches matches) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), matches);
  return found == kFamilies.end() ? nullptr : *found;
}

void append(std::string& list, std::string_view name) {
  if (name.empty()) return;
  if (!list.empty()) list += ", ";
  list += name;
}

}  // namespace

const Family* find_family(std::string_view model_type) {
  if (model_type.empty()) return nullptr;
  return find_if([&](const Family* family) { return family->name == model_type || family->multimodal == model_type; });
}

const Family& family_named(std::string_view model_type) {
  const Family* const family = find_family(model_type);
  assert(family != nullptr);
  return *family;
}

const Family* find_gguf_family(std::string_view architecture) {
  if (architecture.empty()) return nullptr;
  return find_if([&](const Family* family) { return family->gguf.architecture == architecture; });
}

std::string family_names() {
  std::string list;
  for (const Family* family : kFamilies) {
    append(list, family->name);
    append(list, family->multimodal);
  }
  return list;
}

std::string gguf_family_names() {
  std::string list;
  for (const Family* family : kFamilies) {
    // Others may share an architecture's name with the first that has it.
    if (find_gguf_family(family->gguf.architecture) == family) append(list, family->gguf.architecture);
  }
  return list;
}

}  // namespace gradmill
