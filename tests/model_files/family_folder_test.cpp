// SPDX-License-Identifier: Apache-2.0
// Every family's golden model as a folder: what its config.json means, and that an export gives the folder again.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors_writer.h"
#include "files/output_file.h"
#include "model_files/export.h"
#include "model_files/folder_files.h"
#include "model_files/gguf/gguf_export.h"
#include "model_files/gguf/gguf_model.h"
#include "model_files/load_weights.h"
#include "model_files/model_config.h"
#include "model_files/open_model.h"
#include "session/session.h"
#include "support/golden_family.h"
#include "support/goldens.h"

namespace gradmill::test {
namespace {

// The golden's parameters, and its config with the class of its head.
struct GoldenFolder : TempFolder {
  explicit GoldenFolder(const std::string& name) : file(golden_path("family_" + name)), expected(family_spec(file)) {
    auto config = nlohmann::json::parse(file.metadata().at("config"));
    config["architectures"] = {family_of(file).find_architecture(expected.head)->name};
    write("config.json", config.dump());
    std::vector<NamedTensor> tensors;
    for (const std::string& tensor : file.names()) {
      if (file.contains("grad." + tensor)) tensors.push_back({tensor, file.at(tensor), false});
    }
    OutputFile output(real_file_ops(), path() / "model.safetensors");
    write_safetensors(output, tensors);
    output.finish();
    // What only the wiring knows, or the trainer chooses.
    if (expected.head != HeadKind::classifier) expected.pooler = PoolerKind::none, expected.classifier_bias = false;
    if (expected.rope_scaling.kind == RopeScalingKind::dynamic) {
      expected.max_positions = expected.rope_scaling.original_context;
    }
    expected.complete();
  }

  SafeTensors file;
  TransformerSpec expected;
};

std::map<std::string, std::vector<float>> values_of(const TensorSource& source) {
  std::map<std::string, std::vector<float>> values;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const SourceTensor& tensor = source.tensors()[i];
    std::vector<float>& read = values[tensor.name + shape_text(tensor.dims)];
    read.resize(static_cast<size_t>(tensor.numel()));
    source.read_rows(i, 0, tensor.rows(), read.data());
  }
  return values;
}

class FamilyFolderTest : public testing::TestWithParam<std::string> {
 protected:
  GoldenFolder folder_{GetParam()};
};

TEST_P(FamilyFolderTest, ConfigMeansTheSpec) {
  TransformerSpec spec = open_model(folder_.path()).config.spec;
  EXPECT_FLOAT_EQ(spec.attention_scale, folder_.expected.attention_scale);  // a root, rounded in another order
  spec.attention_scale = folder_.expected.attention_scale;
  EXPECT_EQ(spec, folder_.expected);
}

TEST_P(FamilyFolderTest, ExportsGiveTheFolderAgain) {
  const OpenedModel opened = open_model(folder_.path());
  const HfConfig& config = opened.config;
  const Transformer model(config.spec);
  SessionOptions options;
  options.context = 8;
  Session session(model, options);
  WeightsFiller filler(session.context(), session.weights(), 1);
  const WeightMap map = map_weights(*opened.tensors, *config.family, model, false);
  EXPECT_TRUE(map.fresh.empty() && map.extra.empty()) << map.fresh_names(model.params()) << map.extra_names();
  load_weights(*opened.tensors, map, model, filler);
  const ParamSource weights(model, *config.family, fetch_weights(session.context(), session.weights()));
  TempFolder parent;
  const std::filesystem::path to = parent.path() / "out";
  export_model(to, weights, config, {}, nullptr);
  const OpenedModel again = open_model(to);
  EXPECT_EQ(again.config.spec, config.spec);
  EXPECT_EQ(again.config.family, config.family);
  EXPECT_EQ(again.config.labels, config.labels);
  EXPECT_EQ(values_of(*again.tensors), values_of(*opened.tensors));
}

// What llama.cpp's files have a form for.
class FamilyGgufTest : public FamilyFolderTest {};

TEST_P(FamilyGgufTest, HoldsTheSameModel) {
  const OpenedModel opened = open_model(folder_.path());
  const std::vector<ExportFile> files = {{"tokenizer.json", kByteTokenizer}, {"tokenizer_config.json", "{}"}};
  TempFolder parent;
  const std::filesystem::path path = parent.path() / "model.gguf";
  export_gguf(path, *opened.tensors, opened.config, files, {.type = GgmlType::f32});
  const GgufModel model(path);
  EXPECT_EQ(model.config().family, opened.config.family);
  TransformerSpec spec = model.config().spec;
  spec.init_std = opened.config.spec.init_std;
  EXPECT_EQ(spec, opened.config.spec);
  EXPECT_EQ(values_of(model), values_of(*opened.tensors));
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyGgufTest, testing::Values("llama_linear", "llama_packed", "qwen2", "olmo2"),
                         [](const auto& test) { return test.param; });

std::vector<std::string> readable_goldens() {
  std::vector<std::string> names = family_goldens();
  std::erase(names, "deberta_unshared");  // positions that are added to the input, which no released model has
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyFolderTest, testing::ValuesIn(readable_goldens()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace gradmill::test
