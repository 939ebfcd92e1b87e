// SPDX-License-Identifier: Apache-2.0
#include "adapters/adapter_config.h"

#include <gtest/gtest.h>

#include "adapters/module_pattern.h"
#include "adapters/peft_folder.h"
#include "adapters/resolve.h"
#include "core/error.h"
#include "model_files/families/registry.h"
#include "support/goldens.h"

namespace gradmill::test {
namespace {

// `more` contains further members, each after a comma.
AdapterConfig parse(const std::string& targets, const std::string& more = "") {
  return parse_adapter_config(R"({"peft_type": "LORA", "target_modules": )" + targets + more + "}", "test");
}

std::string refusal(const std::string& more) {
  try {
    parse(R"(["q_proj"])", more);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(AdapterConfig, Defaults) {
  const AdapterConfig config = parse(R"(["q_proj"])");
  EXPECT_EQ(config.rank, 8);
  EXPECT_EQ(config.alpha, 8);
  EXPECT_EQ(config.dropout, 0);
  EXPECT_FALSE(config.rslora || config.dora);
  EXPECT_EQ(config.targets.names, std::vector<std::string>{"q_proj"});
  EXPECT_TRUE(parse(R"("all-linear")").targets.all_linear);
  EXPECT_EQ(parse(R"(".*_proj")").targets.expression, ".*_proj");
}

TEST(AdapterConfig, RefusesWhatItCannotDo) {
  for (const char* more :
       {R"(, "bias": "all")", R"(, "lora_bias": true)", R"(, "init_lora_weights": "pissa")", R"(, "use_qalora": true)",
        R"(, "layer_replication": [[0, 2]])", R"(, "trainable_token_indices": [1])", R"(, "eva_config": {"rho": 2})",
        R"(, "task_type": "TOKEN_CLS")", R"(, "target_parameters": ["x"])", R"(, "something_new": 1)",
        R"(, "layers_pattern": "a|b")", R"(, "exclude_modules": "all-linear")"}) {
    EXPECT_NE(refusal(more).find("not supported"), std::string::npos) << more << ": " << refusal(more);
  }
  EXPECT_EQ(refusal(R"(, "something_new": null, "loftq_config": {}, "use_qalora": false)"), "accepted");
  EXPECT_THROW(parse_adapter_config(R"({"peft_type": "IA3", "target_modules": ["q"]})", "test"), Error);
}

TEST(AdapterConfig, RefusesNonsense) {
  for (const char* more : {R"(, "r": 0)", R"(, "r": 1.5)", R"(, "r": "8")", R"(, "r": 1e300)", R"(, "lora_alpha": -1)",
                           R"(, "lora_dropout": 1)", R"(, "use_dora": "yes")", R"(, "modules_to_save": "score")",
                           R"(, "rank_pattern": {"q": 0})", R"(, "rank_pattern": {"(": 1})", R"(, "rank_pattern": [])",
                           R"(, "layers_to_transform": [-1])", R"(, "exclude_modules": [1])", R"(, "r": 4, "r": 8)"}) {
    EXPECT_NE(refusal(more), "accepted") << more;
  }
  for (const char* text :
       {"", "[]", "null", "{", R"({"peft_type": "LORA"})", R"({"peft_type": "LORA", "target_modules": []})",
        R"({"peft_type": "LORA", "target_modules": "x", "layers_to_transform": [1]})"}) {
    EXPECT_THROW(parse_adapter_config(text, "test"), Error) << text;
  }
}

TEST(ModulePattern, MatchesLikePython) {
  const auto matches = [](const char* pattern, const char* name) {
    return ModulePattern(pattern, "test").matches(name);
  };
  EXPECT_TRUE(matches(".*q_proj", "model.layers.0.self_attn.q_proj"));
  EXPECT_FALSE(matches("q_proj", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(matches(R"(.*\.(q|v)_proj)", "a.v_proj"));
  EXPECT_FALSE(matches(R"(.*\.(q|v)_proj)", "a.k_proj"));
  EXPECT_TRUE(matches(R"(model\.layers\.(1\d|[2-4])\..*)", "model.layers.13.mlp"));
  EXPECT_FALSE(matches(R"(model\.layers\.(1\d|[2-4])\..*)", "model.layers.5.mlp"));
  EXPECT_TRUE(matches("(?:ab){2,3}", "ababab"));
  EXPECT_FALSE(matches("(?:ab){2,3}", "abababab"));
  EXPECT_TRUE(matches("a{2}b{1,}c{,2}", "aabbbc"));
  EXPECT_FALSE(matches("a{2}b{1,}c{,2}", "aabbbccc"));
  EXPECT_TRUE(matches("^a.*?b$", "axxb"));
  EXPECT_TRUE(matches("[^.]+", "abc"));
  EXPECT_FALSE(matches("[^.]+", "a.c"));
  EXPECT_TRUE(matches("[]a-c-]+", "]b-"));
  EXPECT_TRUE(matches(R"([\w.]+)", "a_1.b"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_TRUE(matches("a||b", ""));
  EXPECT_TRUE(matches("a{x", "a{x"));
  EXPECT_FALSE(matches("a$b", "ab"));
}

TEST(ModulePattern, RefusesTheRestAndGiants) {
  for (const char* pattern : {"(", ")", "[", "[z-a]", "*a", "a**", R"(\1)", R"(a\)", "(?=a)", "(?P<n>a)", "a{3,2}",
                              "a{1001}", "((a{1000}){1000}){1000}", "((((){1000}){1000}){1000}){1000}", R"(\bq)"}) {
    EXPECT_THROW(ModulePattern(pattern, "test"), Error) << pattern;
  }
}

// Backtracking would take practically forever.
TEST(ModulePattern, IsLinearInTheName) {
  EXPECT_FALSE(ModulePattern("(a*)*(a|a)*(a?){50}b", "test").matches(std::string(5000, 'a')));
}

class ResolveTest : public testing::Test {
 protected:
  ResolveTest() : llama_(llama_spec()), gpt2_(gpt2_spec(37, 2, 3, 24, 24)) {}

  static TransformerSpec llama_spec() {
    TransformerSpec spec = qwen3_spec(41, 3, 4, 2, 32, 48, 32);
    spec.qk_norm = false;
    return spec;
  }

  AdapterPlan llama(const std::string& targets, const std::string& more = "") {
    return resolve_adapters(parse(targets, more), family_named("llama"), llama_);
  }
  static std::vector<int64_t> ranks(const AdapterPlan& plan, const std::string& linear) {
    std::vector<int64_t> result;
    if (const auto found = plan.linears.find(linear); found != plan.linears.end()) {
      for (const SliceAdapter& slice : found->second) result.push_back(slice.rank);
    }
    return result;
  }

  Transformer llama_, gpt2_;
};

using Ranks = std::vector<int64_t>;

TEST_F(ResolveTest, ListsNameEndsOfModules) {
  const AdapterPlan plan = llama(R"(["q_proj", "v_proj", "layers.1.mlp.up_proj"])");
  EXPECT_EQ(ranks(plan, "layers.0.attention.qkv"), (Ranks{8, 0, 8}));
  EXPECT_EQ(ranks(plan, "layers.0.mlp.up"), Ranks{});
  EXPECT_EQ(ranks(plan, "layers.1.mlp.up"), (Ranks{0, 8}));
  EXPECT_EQ(ranks(plan, "layers.0.attention.out"), Ranks{});
  EXPECT_TRUE(plan.freezes_base);
  EXPECT_FALSE(plan.trains("norm.weight"));
}

TEST_F(ResolveTest, AllLinearLeavesTheHeadAlone) {
  const AdapterPlan plan = llama(R"("all-linear")");
  EXPECT_EQ(plan.linears.size(), 12u);
  EXPECT_FALSE(plan.linears.contains("head"));
  EXPECT_EQ(ranks(plan, "layers.2.mlp.up"), (Ranks{8, 8}));
}

TEST_F(ResolveTest, PatternsExclusionsAndLayers) {
  const AdapterPlan plan = llama(R"(["q_proj", "k_proj", "o_proj"])",
                                 R"(, "r": 4, "lora_alpha": 8, "use_rslora": true, "rank_pattern": {"k_proj": 16},
                                     "alpha_pattern": {"layers.1.self_attn.q_proj": 2}, "exclude_modules": ".*0.*o_proj",
                                     "layers_to_transform": [0, 1])");
  EXPECT_EQ(ranks(plan, "layers.0.attention.qkv"), (Ranks{4, 16, 0}));
  EXPECT_EQ(ranks(plan, "layers.0.attention.out"), Ranks{});
  EXPECT_EQ(ranks(plan, "layers.1.attention.out"), Ranks{4});
  EXPECT_EQ(ranks(plan, "layers.2.attention.qkv"), Ranks{});
  EXPECT_FLOAT_EQ(plan.linears.at("layers.0.attention.qkv")[0].scale, 4.0f);
  EXPECT_FLOAT_EQ(plan.linears.at("layers.0.attention.qkv")[1].scale, 2.0f);
  EXPECT_FLOAT_EQ(plan.linears.at("layers.1.attention.qkv")[0].scale, 1.0f);
}

// GPT-2 stores q, k and v as one layer, and so does its adapter.
TEST_F(ResolveTest, FusedLayersHaveOneAdapter) {
  const AdapterPlan plan = resolve_adapters(parse(R"(["c_attn"])"), family_named("gpt2"), gpt2_);
  EXPECT_EQ(ranks(plan, "layers.0.attention.qkv"), Ranks{8});
  EXPECT_EQ(plan.linears.at("layers.0.attention.qkv")[0].rows, 72);
}

TEST_F(ResolveTest, ModulesToSaveTrainInFull) {
  const AdapterPlan plan =
      llama(R"(["q_proj", "down_proj"])", R"(, "modules_to_save": ["1.mlp.down_proj", "embed_tokens"])");
  EXPECT_EQ(plan.trained, (std::set<std::string, std::less<>>{"embedding.tokens.weight", "layers.1.mlp.down.weight"}));
  EXPECT_EQ(ranks(plan, "layers.0.mlp.down"), Ranks{8});
  EXPECT_EQ(ranks(plan, "layers.1.mlp.down"), Ranks{});
  EXPECT_THROW(llama(R"(["q_proj"])", R"(, "modules_to_save": ["k_proj"])"), Error);
  AdapterConfig config;
  config.task_type = "SEQ_CLS";
  config.modules_to_save = {"score"};
  EXPECT_EQ(saved_modules(config), (std::vector<std::string>{"score", "classifier"}));
}

TEST_F(ResolveTest, NothingMatched) { EXPECT_THROW(llama(R"(["c_attn"])"), Error); }

TEST_F(ResolveTest, APlanForAnotherModelIsRefused) {
  EXPECT_THROW(Transformer(gpt2_spec(37, 2, 3, 24, 24), llama(R"(["q_proj"])")), Error);
}

// A file for other settings: tensors are missing, unknown or differently shaped, and nothing is loaded.
TEST_F(ResolveTest, FilesThatDoNotFitAreRefused) {
  const std::filesystem::path folder = golden_path("gpt2").parent_path() / "adapters";
  const SafeTensors file(folder / "llama_lora" / kAdapterFile);
  TransformerSpec spec = qwen3_spec(43, 2, 4, 1, 32, 52, 32);
  spec.qk_norm = false;
  spec.head_dim = 8;
  const Transformer base(spec);
  for (const auto& [targets, more, what] :
       {std::tuple<const char*, const char*, const char*>{R"(["q_proj"])", R"(, "r": 4)", "belongs to no"},
        {R"("all-linear")", R"(, "r": 3)", "shape"},
        {R"("all-linear")", R"(, "r": 4, "use_dora": true)", "lora_magnitude_vector"}}) {
    const Transformer model(spec, resolve_adapters(parse(targets, more), family_named("llama"), base));
    std::vector<float> values(static_cast<size_t>(model.params().flat_size()), 7.0f);
    const TensorView masters(values.data(), DType::fp32, {model.params().flat_size()});
    try {
      load_adapter_tensors(file, family_named("llama"), model, masters);
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
    EXPECT_EQ(std::count(values.begin(), values.end(), 7.0f), std::ssize(values));
  }
}

}  // namespace
}  // namespace gradmill::test
