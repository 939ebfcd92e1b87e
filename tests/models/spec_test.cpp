// SPDX-License-Identifier: Apache-2.0
// Specifications that are refused.
#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "models/transformer_spec.h"

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
      {"first position", [](TransformerSpec& s) { s.position_offset = 2; }},
      {"all heads", [](TransformerSpec& s) { s.qk_norm = false, s.qk_norm_all_heads = true; }},
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

}  // namespace
}  // namespace gradmill::test
