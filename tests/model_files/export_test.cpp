// SPDX-License-Identifier: Apache-2.0
#include "model_files/export.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "files/faulty_file_ops.h"
#include "model_files/folder_files.h"
#include "model_files/load_weights.h"
#include "model_files/model_folder.h"
#include "session/session.h"

namespace gradmill::test {
namespace {

namespace fs = std::filesystem;

// The bytes of every tensor by name.
std::map<std::string, std::pair<std::string, std::string>> contents(const fs::path& file) {
  const SafeTensors tensors(file);
  std::map<std::string, std::pair<std::string, std::string>> result;
  for (size_t i = 0; i < tensors.names().size(); ++i) {
    const SafeTensors::Stored& stored = tensors.stored(i);
    result[tensors.names()[i]] = {std::string(stored.dtype) + shape_text(stored.dims),
                                  {reinterpret_cast<const char*>(stored.bytes.data()), stored.bytes.size()}};
  }
  return result;
}

struct TinyFolder : TempFolder {
  TinyFolder(const char* config, const std::vector<FileTensor>& tensors) {
    write("config.json", config);
    write("model.safetensors", safetensors_of(tensors));
    write("tokenizer.json", "{ \"any\": 1 }\r\n");
    write("generation_config.json", "{}");
    write("not-of-the-model.txt", "x");
  }
};

TEST(Export, WeightsThatWereNotTrainedComeBackBitForBit) {
  for (const bool llama : {true, false}) {
    for (const char* dtype : {"F32", "BF16", "F16"}) {
      const TinyFolder from(llama ? kTinyLlama : kTinyGpt2,
                            llama ? tiny_llama(dtype) : tiny_gpt2(dtype, "transformer."));
      TempFolder to;
      const HfConfig config = read_folder_config(from.path());
      const FolderTensors source(from.path());
      // Through the masters of a model with a narrower compute dtype.
      const Transformer model(config.spec);
      SessionOptions options;
      options.context = 8;
      options.dtype = DType::bf16;
      Session session(model, options);
      WeightsFiller filler(session.context(), session.weights(), 1);
      load_weights(source, map_weights(source, *config.family, model, false), model, filler);
      const ParamSource weights(model, *config.family, fetch_weights(session.context(), session.weights()), &source);
      export_model(to.path(), weights, config, companion_files(from.path(), config), &source);
      EXPECT_EQ(contents(to.path() / "model.safetensors"), contents(from.path() / "model.safetensors")) << dtype;
      EXPECT_EQ(to.read("tokenizer.json"), from.read("tokenizer.json"));
      EXPECT_TRUE(fs::exists(to.path() / "generation_config.json"));
      EXPECT_FALSE(fs::exists(to.path() / "not-of-the-model.txt"));
      const auto written = nlohmann::json::parse(to.read("config.json"));
      EXPECT_EQ(written["vocab_size"], 40);
      EXPECT_EQ(written["dtype"], dtype == std::string("F32")    ? "float32"
                                  : dtype == std::string("BF16") ? "bfloat16"
                                                                 : "float16");
    }
  }
}

TEST(Export, ShardsAboveTheLimit) {
  const TinyFolder from(kTinyLlama, tiny_llama("F32"));
  TempFolder parent;
  const fs::path to = parent.path() / "out";
  const HfConfig config = read_folder_config(from.path());
  export_model(to, FolderTensors(from.path()), config, {}, nullptr, {.shard_bytes = 3000});
  EXPECT_FALSE(fs::exists(to / "model.safetensors"));
  const auto index = nlohmann::json::parse(std::ifstream(to / "model.safetensors.index.json"));
  const FolderTensors read(to), source(from.path());
  ASSERT_EQ(read.tensors().size(), source.tensors().size());
  EXPECT_EQ(index["weight_map"].size(), source.tensors().size());
  uint64_t total = 0;
  for (size_t i = 0; i < read.tensors().size(); ++i) {
    EXPECT_EQ(read.tensors()[i].name, source.tensors()[i].name);
    std::vector<float> a(static_cast<size_t>(read.tensors()[i].numel())), b(a.size());
    read.read_rows(i, 0, read.tensors()[i].rows(), a.data());
    source.read_rows(i, 0, source.tensors()[i].rows(), b.data());
    EXPECT_EQ(a, b);
    total += a.size() * 4;
  }
  EXPECT_EQ(index["metadata"]["total_size"], total);
  // A tensor larger than the limit gets a shard of its own.
  export_model(parent.path() / "small", source, config, {}, &source, {.dtype = DType::bf16, .shard_bytes = 10});
  EXPECT_EQ(FolderTensors(parent.path() / "small").tensors()[0].type, "BF16");
}

TEST(Export, ExtraTensorsComeAlongOnlyWhereAsked) {
  std::vector<FileTensor> tensors = tiny_llama("F32", "");
  tensors.push_back(make_tensor("pooler.dense.weight", "F32", {4, 4}));
  const TinyFolder from(kTinyLlama, tensors);
  TempFolder parent;
  HfConfig config = read_folder_config(from.path());
  const FolderTensors source(from.path());
  export_model(parent.path() / "lm", source, config, {}, nullptr);
  const FolderTensors language(parent.path() / "lm");
  EXPECT_TRUE(language.find("model.norm.weight"));
  EXPECT_FALSE(language.find("pooler.dense.weight"));
  config.spec.head = HeadKind::none;
  export_model(parent.path() / "bare", source, config, {}, &source);
  const FolderTensors bare(parent.path() / "bare");
  EXPECT_TRUE(bare.find("norm.weight") && bare.find("pooler.dense.weight"));
}

TEST(Export, LeavesNothingBehindWhenItFails) {
  std::vector<FileTensor> tensors = tiny_llama("F32");
  const TinyFolder from(kTinyLlama, tensors);
  TempFolder parent;
  const HfConfig config = read_folder_config(from.path());
  const FolderTensors source(from.path());
  parent.write("taken", "x");
  EXPECT_THROW(export_model(parent.path() / "taken", source, config, {}, &source), Error);
  EXPECT_THROW(export_model(parent.path() / "taken" / "out", source, config, {}, &source), Error);
  FaultyFileOps full(real_file_ops(), parse_fault("enospc:2000"));
  EXPECT_THROW(export_model(parent.path() / "new" / "out", source, config, {}, &source, {}, full), FileError);
  EXPECT_EQ(std::distance(fs::directory_iterator(parent.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace gradmill::test
