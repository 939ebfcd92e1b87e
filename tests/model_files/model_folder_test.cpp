// SPDX-License-Identifier: Apache-2.0
#include "model_files/model_folder.h"

#include <gtest/gtest.h>

#include <limits>

#include "model_files/folder_files.h"
#include "model_files/load_weights.h"
#include "session/session.h"

namespace gradmill::test {
namespace {

namespace fs = std::filesystem;

void expect_refusal(const std::string& fragment, const std::string& message) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, fragment, message);
  EXPECT_EQ(message.find('\n'), std::string::npos) << "one line";
}

std::vector<float> values_of(const FileTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / (tensor.dtype == "F64" ? 8 : tensor.dtype == "F32" ? 4 : 2));
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype == "F32") std::memcpy(&values[i], &tensor.bytes[i * 4], 4);
    if (tensor.dtype == "F64") {
      double value;
      std::memcpy(&value, &tensor.bytes[i * 8], 8);
      values[i] = static_cast<float>(value);
    }
    if (tensor.dtype == "BF16" || tensor.dtype == "F16") {
      uint16_t bits;
      std::memcpy(&bits, &tensor.bytes[i * 2], 2);
      values[i] = tensor.dtype == "F16" ? fp16_bits_to_float(bits) : std::bit_cast<float>(uint32_t{bits} << 16);
    }
  }
  return values;
}

const FileTensor& named(const std::vector<FileTensor>& tensors, const std::string& ending) {
  for (const FileTensor& tensor : tensors) {
    if (tensor.name.ends_with(ending)) return tensor;
  }
  throw std::runtime_error(ending);
}

SessionOptions short_rows() {
  SessionOptions options;
  options.context = 8;
  return options;
}

struct Loaded {
  explicit Loaded(const fs::path& folder, bool new_head = false)
      : config(read_folder_config(folder)),
        model(config.spec),
        session(model, short_rows()),
        source(folder),
        map(map_weights(source, *config.family, model, new_head)) {
    WeightsFiller filler(session.context(), session.weights(), 1);
    load_weights(source, map, model, filler);
  }
  std::vector<float> get(const std::string& name) {
    return session.weights().get(session.context(), model.params().find(name));
  }

  HfConfig config;
  Transformer model;
  Session session;
  FolderTensors source;
  WeightMap map;
};

TEST(ModelFolder, LoadsEveryFloatTypeIntoFusedParameters) {
  for (const char* dtype : {"F64", "F32", "F16", "BF16"}) {
    TempFolder folder;
    const std::vector<FileTensor> tensors = tiny_llama(dtype);
    folder.write("config.json", kTinyLlama);
    folder.write("model.safetensors", safetensors_of(tensors));
    Loaded loaded(folder.path());
    EXPECT_TRUE(loaded.map.extra.empty() && loaded.map.fresh.empty());
    EXPECT_EQ(loaded.get("embedding.tokens.weight"), values_of(named(tensors, "embed_tokens.weight"))) << dtype;
    std::vector<float> expected;
    for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
      const auto values = values_of(named(tensors, fmt::format("layers.1.self_attn.{}.weight", part)));
      expected.insert(expected.end(), values.begin(), values.end());
    }
    EXPECT_EQ(loaded.get("layers.1.attention.qkv.weight"), expected) << dtype;
  }
}

TEST(ModelFolder, ToleratesPrefixesBuffersAndTransposedMatrices) {
  for (const char* prefix : {"", "transformer."}) {
    TempFolder folder;
    std::vector<FileTensor> tensors = tiny_gpt2("F32", prefix);
    tensors.push_back(make_tensor(std::string(prefix) + "h.0.attn.bias", "F32", {1, 1, 4, 4}));
    tensors.push_back(make_tensor("embeddings.position_ids", "I64", {1, 4}));
    tensors.push_back(make_tensor("some.other", "I64", {2}));
    FileTensor head = named(tensors, "wte.weight");
    head.name = "lm_head.weight";  // a copy of the tensor it is tied to
    tensors.push_back(head);
    folder.write("config.json", kTinyGpt2);
    folder.write("model.safetensors", safetensors_of(tensors));
    Loaded loaded(folder.path());
    EXPECT_EQ(loaded.map.extra, std::vector<std::string>{"some.other"});
    EXPECT_EQ(loaded.map.extra_names(), "'some.other'");
    const std::vector<float> stored = values_of(named(tensors, "mlp.c_fc.weight")),
                             ours = loaded.get("layers.0.mlp.up.weight");
    for (size_t in = 0; in < 16; ++in) {
      for (size_t out = 0; out < 64; ++out) ASSERT_EQ(ours[out * 16 + in], stored[in * 64 + out]);
    }
    // It is unknown which of two different values is meant.
    tensors.back().bytes[0] ^= 1;
    fs::remove(folder.path() / "model.safetensors");
    folder.write("model.safetensors", safetensors_of(tensors));
    expect_refusal("tie_word_embeddings", message_of([&] { Loaded again(folder.path()); }));
  }
}

TEST(ModelFolder, ReadsTheTextPartOfMultimodalModels) {
  TempFolder folder;
  std::vector<FileTensor> tensors = tiny_llama("BF16", "language_model.model.");
  tensors.push_back(make_tensor("vision_tower.x", "BF16", {4, 4}));
  folder.write("config.json", kTinyLlama);
  folder.write("model.safetensors", safetensors_of(tensors));
  EXPECT_EQ(Loaded(folder.path()).map.extra, std::vector<std::string>{"vision_tower.x"});
}

TEST(ModelFolder, ReadsShards) {
  TempFolder folder;
  const std::vector<FileTensor> tensors = tiny_llama("F32");
  folder.write("config.json", kTinyLlama);
  const std::vector<FileTensor> first(tensors.begin(), tensors.begin() + 7), second(tensors.begin() + 7, tensors.end());
  std::string map;
  for (const FileTensor& tensor : tensors) {
    const bool in_first = std::any_of(first.begin(), first.end(), [&](const auto& t) { return t.name == tensor.name; });
    map += fmt::format(R"({}"{}":"model-0000{}-of-00002.safetensors")", map.empty() ? "" : ",", tensor.name,
                       in_first ? 1 : 2);
  }
  folder.write("model-00001-of-00002.safetensors", safetensors_of(first));
  folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":1},"weight_map":{)" + map + "}}");
  expect_refusal("model-00002-of-00002.safetensors", message_of([&] { Loaded loaded(folder.path()); }));
  folder.write("model-00002-of-00002.safetensors", safetensors_of(second));
  EXPECT_EQ(Loaded(folder.path()).get("norm.weight"), values_of(named(tensors, "norm.weight")));
  // A tensor is missing where the index says it is.
  fs::remove(folder.path() / "model-00002-of-00002.safetensors");
  folder.write("model-00002-of-00002.safetensors", safetensors_of({second.begin() + 1, second.end()}));
  expect_refusal(second[0].name, message_of([&] { Loaded loaded(folder.path()); }));
}

TEST(ModelFolder, AnIndexCannotLeadOutOfTheFolder) {
  for (const char* name : {"../a.safetensors", "/etc/a.safetensors", "b/a.safetensors", "..", "a.bin", ".safetensors",
                           ".hidden.safetensors", "a\\\\b.safetensors", "a\\u0000.safetensors"}) {
    const std::string text = fmt::format(R"({{"weight_map":{{"w":"{}"}}}})", name);
    expect_refusal("not the name of a safetensors file", message_of([&] { read_shard_index(text, "i.json"); }));
  }
  for (const char* text : {"{}", "[]", R"({"weight_map":[]})", R"({"weight_map":{"w":1}})"}) {
    expect_refusal("i.json", message_of([&] { read_shard_index(text, "i.json"); }));
  }
  TempFolder outside, folder;
  outside.write("x.safetensors", safetensors_of(tiny_llama("F32")));
  folder.write("config.json", kTinyLlama);
  folder.write("model.safetensors.index.json", R"({"weight_map":{"model.norm.weight":"x.safetensors"}})");
  fs::create_symlink(outside.path() / "x.safetensors", folder.path() / "x.safetensors");
  expect_refusal("leads out of the folder", message_of([&] { FolderTensors tensors(folder.path()); }));
  // Hugging Face's cache has links to blobs beside the snapshots.
  TempFolder cache;
  fs::create_directories(cache.path() / "blobs");
  fs::create_directories(cache.path() / "snapshots" / "1");
  cache.write("blobs/hash", safetensors_of(tiny_llama("F32")));
  fs::create_symlink("../../blobs/hash", cache.path() / "snapshots/1/x.safetensors");
  cache.write("snapshots/1/model.safetensors.index.json", R"({"weight_map":{"model.norm.weight":"x.safetensors"}})");
  EXPECT_EQ(FolderTensors(cache.path() / "snapshots/1").tensors().size(), 1u);
}

TEST(ModelFolder, RefusesWhatIsNoModel) {
  TempFolder folder;
  folder.write("config.json", kTinyLlama);
  expect_refusal("neither model.safetensors", message_of([&] { FolderTensors tensors(folder.path()); }));
  expect_refusal("not a folder", message_of([&] { FolderTensors tensors(folder.path() / "config.json"); }));
  folder.write("adapter_config.json", "{}");
  expect_refusal("adapter", message_of([&] { FolderTensors tensors(folder.path()); }));
  folder.write("pytorch_model.bin", "x");
  const std::string pickle = message_of([&] { FolderTensors tensors(folder.path()); });
  expect_refusal("pickle", pickle);
  expect_refusal("save_file", pickle);
}

TEST(ModelFolder, RefusesDamagedFiles) {
  TempFolder folder;
  folder.write("config.json", kTinyLlama);
  const std::string good = safetensors_of(tiny_llama("F32"));
  const auto refusal = [&](const std::string& bytes) {
    fs::remove(folder.path() / "model.safetensors");
    folder.write("model.safetensors", bytes);
    return message_of([&] { Loaded loaded(folder.path()); });
  };
  EXPECT_EQ(refusal(good), "no error");
  expect_refusal("do not lie in", refusal(good.substr(0, good.size() - 4)));
  expect_refusal("after the last tensor", refusal(good + "1234"));
  expect_refusal("ends within its header", refusal(good.substr(0, 100)));
  std::string oversized = good;
  oversized[6] = 1;
  expect_refusal("the format allows", refusal(oversized));
}

TEST(ModelFolder, NamesTensorExpectedAndFound) {
  TempFolder folder;
  folder.write("config.json", kTinyLlama);
  const auto refusal = [&](const std::vector<FileTensor>& tensors) {
    fs::remove(folder.path() / "model.safetensors");
    folder.write("model.safetensors", safetensors_of(tensors));
    return message_of([&] { Loaded loaded(folder.path()); });
  };
  std::vector<FileTensor> tensors = tiny_llama("F32");
  tensors[0] = make_tensor("model.embed_tokens.weight", "F32", {41, 16});
  expect_refusal("'model.embed_tokens.weight' is F32 (41, 16)", refusal(tensors));
  expect_refusal("(40, 16)", refusal(tensors));
  tensors[0] = make_tensor("model.embed_tokens.weight", "I64", {40, 16});
  expect_refusal("is I64", refusal(tensors));
  tensors.erase(tensors.begin());
  expect_refusal("there is no tensor 'model.embed_tokens.weight' of shape (40, 16)", refusal(tensors));
}

TEST(ModelFolder, RefusesValuesThatAreNotFinite) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    TempFolder folder;
    folder.write("config.json", kTinyLlama);
    std::vector<FileTensor> tensors = tiny_llama("F32");
    std::memcpy(&tensors[0].bytes[4 * (16 * 3 + 5)], &value, 4);
    folder.write("model.safetensors", safetensors_of(tensors));
    expect_refusal("'model.embed_tokens.weight': the value in row 3, column 5",
                   message_of([&] { Loaded loaded(folder.path()); }));
  }
}

TEST(ModelFolder, ChecksTheTokenizer) {
  HfConfig config;
  config.spec.vocab = 40;
  check_tokenizer(config, 40, "t");
  expect_refusal("41 ids", message_of([&] { check_tokenizer(config, 41, "t"); }));
}

}  // namespace
}  // namespace gradmill::test
