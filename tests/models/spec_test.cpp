// SPDX-License-Identifier: Apache-2.0
// Specifications that are refused, and the names that each family uses for a specification's tensors.
#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "models/hf_names.h"

namespace gradmill::test {
namespace {

TransformerSpec decoder() { return qwen3_spec(11, 2, 2, 1, 16, 24, 32); }

TEST(Spec, RefusesWhatCannotWork) {
  const std::pair<const char*, std::function<void(TransformerSpec&)>> mistakes[] = {
      {"rope scaling",
       [](TransformerSpec& s) {
         s.positions = PositionScheme::learned, s.qk_norm = false, s.rope_scaling.kind = RopeScalingKind::linear;
       }},
      {"queries and keys", [](TransformerSpec& s) { s.positions = PositionScheme::learned; }},
      {"factor", [](TransformerSpec& s) { s.rope_scaling = {.kind = RopeScalingKind::linear, .factor = 0}; }},
      {"made for", [](TransformerSpec& s) { s.rope_scaling = {.kind = RopeScalingKind::yarn, .factor = 2}; }},
      {"final norm", [](TransformerSpec& s) { s.final_norm = false; }},
      {"first one", [](TransformerSpec& s) { s.norm_placement = NormPlacement::around, s.first_norm = false; }},
      {"local or not", [](TransformerSpec& s) { s.window = 4, s.local_layers = {true}; }},
      {"no window",
       [](TransformerSpec& s) {
         s.local_layers = {true, false};
       }},
      {"order", [](TransformerSpec& s) { s.positions = PositionScheme::none, s.qk_norm = false; }},
      {"disentangled", [](TransformerSpec& s) { s.disentangled = {.buckets = 4, .max_distance = 32}; }},
      {"sees the tokens", [](TransformerSpec& s) { s.causal = false; }},
      {"gelu", [](TransformerSpec& s) { s.causal = false, s.head = HeadKind::masked_lm; }},
      {"labels", [](TransformerSpec& s) { s.head = HeadKind::classifier; }},
      {"cap of logits", [](TransformerSpec& s) { s.logit_softcap = -1; }},
      {"token types", [](TransformerSpec& s) { s.token_types = -1; }},
  };
  TransformerSpec works = decoder();
  EXPECT_NO_THROW(works.complete());
  for (const auto& [words, make] : mistakes) {
    TransformerSpec spec = decoder();
    make(spec);
    try {
      spec.complete();
      ADD_FAILURE() << "accepted: " << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
}

std::vector<std::string> names_of(HfFamily family, const Transformer& model) {
  std::vector<std::string> names;
  for (ParamId id = 0; id < model.params().size(); ++id) {
    for (const HfTensor& tensor : hf_tensors(family, model, id)) names.push_back(tensor.name);
  }
  return names;
}

// A body alone is stored without the prefix that it has in a model with a head.
TEST(HfNames, BodiesHaveNoPrefix) {
  TransformerSpec spec = decoder();
  const std::vector<std::string> with_head = names_of(HfFamily::qwen3, Transformer(spec));
  EXPECT_EQ(with_head.front(), "model.embed_tokens.weight");
  spec.head = HeadKind::none;
  const std::vector<std::string> body = names_of(HfFamily::qwen3, Transformer(spec));
  ASSERT_EQ(body.size(), with_head.size());  // the head is tied: it has no tensor
  for (size_t i = 0; i < body.size(); ++i) EXPECT_EQ("model." + body[i], with_head[i]);
}

TEST(HfNames, RefusesParametersThatTheFamilyDoesNotHave) {
  const Transformer model(decoder());
  EXPECT_THROW(hf_tensors(HfFamily::gpt2, model, model.params().find("layers.0.attention.q_norm.weight")), Error);
  EXPECT_THROW(hf_tensors(HfFamily::bert, model, model.params().find("norm.weight")), Error);
}

}  // namespace
}  // namespace gradmill::test
