// SPDX-License-Identifier: Apache-2.0
#include "run/run_adapters.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model_files/load_weights.h"
#include "model_files/model_config.h"
#include "support/temporary_folder.h"

namespace gradmill::test {
namespace {

// The files of a bare encoder have no pooler: it trains in full, whatever the family calls it.
TEST(RunAdapters, NewPoolersTrainInFull) {
  for (const char* kind : {"bert", "deberta-v2", "modernbert", "roberta"}) {
    nlohmann::json json = {{"model_type", kind},         {"vocab_size", 20},       {"hidden_size", 16},
                           {"intermediate_size", 24},    {"num_hidden_layers", 1}, {"num_attention_heads", 2},
                           {"relative_attention", true}, {"pos_att_type", "c2p"},  {"position_biased_input", false}};
    HfConfig config = read_model_config(json.dump(), kind);
    const Transformer body(config.spec);
    const ParamSource weights(body, *config.family, [&](ParamId id, int64_t begin, int64_t end) {
      const ParamSpec& spec = body.params().spec(id);
      return std::vector<float>(static_cast<size_t>((end - begin) * (spec.is_matrix() ? spec.cols : 1)));
    });
    set_head(config, HeadKind::classifier, {"no", "yes"});
    const TemporaryFolder folder;
    RunConfig settings;
    settings.model.path = folder.path().string();
    settings.adapter.kind = "lora";
    const Task task{.kind = TaskKind::classify, .labels = LabelMap(config.labels)};
    const RunAdapters adapters = plan_adapters(settings, task, *config.family, Transformer(config.spec), &weights);
    EXPECT_TRUE(adapters.plan.trained.contains("pooler.weight")) << kind;
    EXPECT_TRUE(adapters.plan.trained.contains("classifier.weight")) << kind;
  }
}

}  // namespace
}  // namespace gradmill::test
