// SPDX-License-Identifier: Apache-2.0
#include "model_files/hf_names.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "model_files/families/registry.h"

namespace gradmill::test {
namespace {

TransformerSpec decoder() { return qwen3_spec(11, 2, 2, 1, 16, 24, 32); }

std::vector<std::string> names_of(const Family& family, const Transformer& model) {
  std::vector<std::string> names;
  for (ParamId id = 0; id < model.params().size(); ++id) {
    for (const HfTensor& tensor : hf_tensors(family, model, id)) names.push_back(tensor.name);
  }
  return names;
}

// A body alone is stored without the prefix that it has in a model with a head.
TEST(HfNames, BodiesHaveNoPrefix) {
  TransformerSpec spec = decoder();
  const std::vector<std::string> with_head = names_of(family_named("qwen3"), Transformer(spec));
  EXPECT_EQ(with_head.front(), "model.embed_tokens.weight");
  spec.head = HeadKind::none;
  const std::vector<std::string> body = names_of(family_named("qwen3"), Transformer(spec));
  ASSERT_EQ(body.size(), with_head.size());  // the head is tied: it has no tensor
  for (size_t i = 0; i < body.size(); ++i) EXPECT_EQ("model." + body[i], with_head[i]);
}

TEST(HfNames, RefusesParametersThatTheFamilyDoesNotHave) {
  const Transformer model(decoder());
  EXPECT_THROW(hf_tensors(family_named("gpt2"), model, model.params().find("layers.0.attention.q_norm.weight")), Error);
  EXPECT_THROW(hf_tensors(family_named("bert"), model, model.params().find("norm.weight")), Error);
}

TEST(HfNames, NamesTheTensorsOfHeads) {
  EXPECT_EQ(hf_head_tensor(family_named("llama"), "classifier.weight"), "score.weight");
  EXPECT_EQ(hf_head_tensor(family_named("bert"), "head.weight"), "cls.predictions.decoder.weight");
  EXPECT_EQ(hf_head_tensor(family_named("modernbert"), "head.weight"), "decoder.weight");
  EXPECT_EQ(hf_head_tensor(family_named("llama"), "pooler.weight"), "");
}

}  // namespace
}  // namespace gradmill::test
